"""API keys, sessions and tickets in the store: only hashes are kept, and what is over is over."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest

from holdfast import ApiKey, Holdfast, Scope, SettingError
from holdfast.domain.access import fits, parts_of
from holdfast.store import access
from tests.conformance.world import World


def stored_text(store: World) -> str:
    return repr([store.rows(f"SELECT * FROM holdfast_{table} ORDER BY 1") for table in ("api_key", "pass")])


def known(store: World) -> dict[str, ApiKey]:
    found = store.app.keys()
    return {key.name: key for key in found}


def test_a_key_is_kept_as_a_hash_only(store: World) -> None:
    made = store.app.add_key("ci", scope="operate", queues=["b", "a"], expires=timedelta(days=1))
    parts = parts_of(made.text)
    assert parts is not None
    prefix, secret = parts
    assert made.text == f"hf_{prefix}_{secret}"
    assert prefix in stored_text(store)
    assert secret not in stored_text(store)
    assert secret not in repr(made)
    [found] = store.app.keys()
    assert found == ApiKey(
        prefix=prefix,
        name="ci",
        scope=Scope.OPERATE,
        queues=("a", "b"),
        created_at=store.clock.moment,
        expires_at=store.clock.moment + timedelta(days=1),
    )
    stored = store.app.store.read(lambda _: access.key(prefix))
    assert stored is not None
    assert fits(secret, stored.digest)
    assert not fits(secret[:-1] + ("a" if secret[-1] != "a" else "b"), stored.digest)


def test_no_two_keys_are_the_same(store: World) -> None:
    made = [store.app.add_key("same name") for _ in range(20)]
    assert len({key.prefix for key in made}) == len({key.text for key in made}) == 20


def test_a_key_that_is_revoked_cannot_be_used_and_stays_listed(store: World) -> None:
    first, second = store.app.add_key("first"), store.app.add_key("second")
    store.clock.advance(5)
    revoked = store.app.revoke_key(first.prefix)
    at = store.clock.moment
    assert (revoked.revoked_at, revoked.usable(at), second.usable(at)) == (at, False, True)
    store.clock.advance(5)
    assert store.app.revoke_key(first.text).revoked_at == at, "to revoke it again changes nothing"
    assert (known(store)["first"].revoked_at, known(store)["second"].revoked_at) == (at, None)
    with pytest.raises(SettingError, match="there is no API key '000000000000'"):
        store.app.revoke_key("000000000000")


def test_a_key_expires_by_the_clock_of_the_store(store: World) -> None:
    made = store.app.add_key("short", expires=10)
    assert made.usable(store.clock.moment)
    store.clock.advance(9.999)
    assert made.usable(store.clock.moment)
    store.clock.advance(0.001)
    assert not made.usable(store.clock.moment)


def test_keys_that_are_of_no_use_are_forgotten_after_90_days(store: World) -> None:
    store.app.revoke_key(store.app.add_key("revoked").prefix)
    store.app.add_key("expired", expires=1)
    store.app.add_key("good")
    store.clock.advance(timedelta(days=89))
    store.app.add_key("later")
    assert set(known(store)) == {"revoked", "expired", "good", "later"}
    store.clock.advance(timedelta(days=2))
    store.app.add_key("last")
    assert list(known(store)) == ["good", "later", "last"], "the oldest first"


def test_there_is_a_bound(store: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "API_KEYS_MAX", 2)
    store.app.add_key("one")
    store.app.add_key("two")
    with pytest.raises(SettingError, match="there are 2 API keys"):
        store.app.add_key("three")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": ""}, "name ''"),
        ({"name": "a\nb"}, "printable"),
        ({"name": "x" * 129}, "1 to 128"),
        ({"name": "a", "scope": "root"}, "scope 'root' is unknown; use one of read, operate, admin"),
        ({"name": "a", "queues": []}, "1 to 100 queues"),
        ({"name": "a", "queues": ["a b"]}, "queue 'a b'"),
        ({"name": "a", "expires": 0}, "expires"),
        ({"name": "a", "expires": -1}, "expires"),
    ],
)
def test_what_makes_no_sense_is_refused(store: World, arguments: dict[str, object], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        store.app.add_key(**arguments)  # type: ignore[arg-type]
    assert store.app.keys() == []


def test_when_a_key_was_used_only_grows(store: World) -> None:
    one, _ = store.app.add_key("one"), store.app.add_key("other")
    now = store.clock.now()
    store.app.store.write(lambda _: access.note_uses({one.prefix: now + 5, "gone": now}))
    store.app.store.write(lambda _: access.note_uses({one.prefix: now + 3}))
    assert known(store)["one"].last_used_at == store.clock.moment + timedelta(microseconds=5)
    assert known(store)["other"].last_used_at is None


def test_any_key_counts_also_one_that_was_revoked(store: World) -> None:
    def any_key() -> bool:
        return store.app.store.read(lambda _: access.any_key())

    assert not any_key()
    store.app.revoke_key(store.app.add_key("first").prefix)
    assert any_key()


# Sessions and tickets


def give(store: World, kind: str, prefix: str | None = None, job: str | None = None, seconds: float = 30) -> str:
    return store.app.store.write(lambda moment: access.give_pass(moment, kind, seconds, prefix, job))


def test_a_pass_is_a_hash_too_and_found_by_any_process_until_its_time_is_over(store: World) -> None:
    key = store.app.add_key("one")
    secret, other = give(store, "session", key.prefix), store.another()
    assert secret not in stored_text(store)
    found = other.store.read(lambda moment: access.find_pass(moment, "session", secret))
    assert found is not None
    assert (found.prefix, found.job) == (key.prefix, None)
    assert other.store.read(lambda moment: access.find_pass(moment, "ticket", secret)) is None, "of another kind"
    store.clock.advance(30)
    assert other.store.read(lambda moment: access.find_pass(moment, "session", secret)) is None


def test_a_ticket_is_taken_once_whoever_comes(store: World) -> None:
    secret, others = give(store, "ticket", job="some-job"), [store.another() for _ in range(4)]
    taken: list[object] = []
    together = threading.Barrier(len(others))

    def take(app: Holdfast) -> None:
        together.wait(30)
        taken.append(app.store.write(lambda moment: access.take_pass(moment, "ticket", secret)))

    threads = [threading.Thread(target=take, args=(app,)) for app in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(each is None for each in taken) == [False, True, True, True]


def test_what_is_over_is_dropped_when_the_next_comes(store: World) -> None:
    for _ in range(3):
        give(store, "ticket")
    store.clock.advance(31)
    give(store, "ticket")
    assert store.rows("SELECT count(*) FROM holdfast_pass") == [(1,)]


def test_a_revoked_key_takes_its_sessions_with_it(store: World) -> None:
    one, other = store.app.add_key("one"), store.app.add_key("other")
    gone, kept = (give(store, "session", key.prefix) for key in (one, other))
    store.app.revoke_key(one.prefix)
    assert store.app.store.read(lambda moment: access.find_pass(moment, "session", gone)) is None
    assert store.app.store.read(lambda moment: access.find_pass(moment, "session", kept)) is not None


# The client


def test_the_async_twins_do_the_same(store: World) -> None:
    async def life() -> None:
        made = await store.app.aadd_key("ci", "admin")
        assert [key.prefix for key in await store.app.akeys()] == [made.prefix]
        revoked = await store.app.arevoke_key(made)
        assert revoked.revoked_at == store.clock.moment

    asyncio.run(life())
