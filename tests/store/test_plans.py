"""What the hot statements cost on PostgreSQL does not depend on how much there is, nor on what the planner believes.

Plans are made once per connection, by whatever statistics there are then: often those of tables that are still empty. So each
step of a job's life is measured, in pages that the server looks at, by one connection with little and with much in every table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from holdfast import Conflict, Holdfast
from holdfast.domain.job import Claimed
from holdfast.domain.outcome import Change, JobError
from holdfast.domain.states import State
from holdfast.store import claim, tend, workers
from holdfast.store.op import Moment, Op
from holdfast.store.postgres.schema import verbs
from holdfast.store.postgres.url import SETTINGS_LOCAL
from holdfast.store.settle import NOTHING_LEFT, Report, settle
from tests.servers import migrated_database, new_database, plain
from tests.store.inside import postgres_store
from tests.store.test_postgres import app_on, ask
from tests.until import until

LITTLE, MUCH = 300, 6_000
BATCH = 20
LEASE = 3_600_000_000
TABLES = (
    "SELECT relname FROM pg_class WHERE relnamespace = 'holdfast'::regnamespace AND relkind = 'r' AND relname <> 'server_epoch'"
)
FILL = (
    """
CREATE TEMPORARY TABLE IF NOT EXISTS filled AS SELECT 0::bigint AS seq, 'running' AS state WHERE false
""",
    "TRUNCATE filled",
    """
INSERT INTO filled SELECT nextval('holdfast.job_seq'), CASE WHEN half = 1 THEN 'running' ELSE 'succeeded' END
  FROM generate_series(1, %(count)s), generate_series(1, 2) AS half
""",
    """
INSERT INTO holdfast.job_spec (seq, created_at, lane, priority, attempts_max, id, arguments)
SELECT seq, seq, 1, 100, 3, 'filled-' || seq, '[]' FROM filled
""",
    """
INSERT INTO holdfast.job_state (seq, started_at, finished_at, lane, attempt, token, event_count, state, result)
SELECT seq, 1, CASE WHEN state = 'succeeded' THEN 2 END, 1, 1, 1, CASE WHEN state = 'succeeded' THEN 3 ELSE 2 END, state, 'null'
  FROM filled
""",
    "INSERT INTO holdfast.event (job, at, number, kind) SELECT seq, 1, 2, 'started' FROM filled",
    "INSERT INTO holdfast.event (job, at, number, kind) SELECT seq, 2, 3, state FROM filled WHERE state = 'succeeded'",
    "INSERT INTO holdfast.finished (finished_at, seq, lane, state) SELECT 2, seq, 1, state FROM filled WHERE state = 'succeeded'",
    """
INSERT INTO holdfast.running (seq, worker, lease, token, lane)
SELECT seq, %(worker)s, 3600000000, 1, 1 FROM filled WHERE state = 'running'
""",
)
OVER = "SELECT pg_snapshot_xmin(pg_current_snapshot()) >= %s::xid8"
PAGES = "SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = current_database()"


class Scene:
    """One connection that writes, so that every plan is made once; and a worker that it writes for."""

    def __init__(self, app: Holdfast, url: str) -> None:
        self.app, self.url = app, url
        self.task = app.task_named("work")
        self.store = postgres_store(app)
        del self.store._writers[1:]
        self.plan()
        self.worker = self.write(lambda moment: workers.register(moment, "w", "host", 1, LEASE, by_hand=False))
        self.cursor = claim.Cursor()
        self.task.enqueue(0)  # which makes its lane
        self.held: list[Claimed] = []
        self._own = psycopg.connect(plain(url), autocommit=True)

    def plan(self) -> None:
        """All that can be said, now, by what the planner knows now."""
        self.app.stats()
        self.store.write(lambda _: claim.lanes(None, None))
        connection = self.store._writers[0]._connection
        assert connection is not None
        for verb in verbs():
            planned(connection.raw, verb, known=verb in connection._pipe._names)
            connection._pipe._names.add(verb)

    def write(self, make: Callable[[Moment], Op[Any]]) -> Any:
        return self.store.write(make)

    def fill(self, count: int) -> None:
        """So many more that are ready, for later, held and ended. The last two never were ready: nobody clears away such rows,
        and to walk over them is no fault of a plan's."""
        for statement in FILL:
            self._own.execute(statement.encode(), {"count": count, "worker": self.worker})
        self.app.enqueue_many(map(self.task.bind, range(count)))
        self.app.enqueue_many(map(self.task.using(run_after=86_400).bind, range(count)))
        for number in range(count // 20):
            self.task.using(key=("k", count, number), tags=["tag"], parent="p").enqueue(number)

    def claim(self, limit: int) -> list[Claimed]:
        def make(moment: Moment) -> Op[claim.Claim]:
            yield from workers.notices(self.worker)
            yield from workers.beat(moment, self.worker)
            lanes = yield from claim.ready_lanes(moment, None, ["work"], self.cursor)
            holder = claim.Holder(self.worker, "w", LEASE)
            return (yield from claim.claim(moment, holder, lanes, limit, self.cursor))

        claimed: claim.Claim = self.write(make)
        self.cursor = claimed.cursor
        assert len(claimed.jobs) == limit
        return claimed.jobs

    def settle(self, claimed: list[Claimed], how: str) -> None:
        broken = JobError("Error", "broken")
        change = {
            "finish": Change("finish", State.SUCCEEDED, "null"),
            "fail": Change("fail", State.FAILED, reason="broken", error=broken, data={}),
            "back_off": Change("back_off", State.SCHEDULED, reason="broken", error=broken, data={}, delay_seconds=86_400.0),
            "release": Change("release", State.READY, reason="not now", data={}),
        }.get(how)
        said: dict[str, Any] = {} if how != "say" else {"events": [("page", 1, "{}")], "progress": "{}", "meter": "{}"}
        reports = [Report(each.seq, each.token, each.lane, each.attempt, change, **said) for each in claimed]
        assert self.write(lambda moment: settle(moment, reports, self.worker, waits=False)) == NOTHING_LEFT

    def pages(self) -> int:
        """That all connections of the store have looked at by now."""
        for connection in (self.store._writers[0]._connection, *self.store._readers.kept):
            if connection is not None:
                connection.raw.execute("SELECT pg_stat_force_next_flush()")
        (found,) = self._own.execute(PAGES).fetchone() or (0,)
        return int(found)

    def await_others(self) -> None:
        """Until every transaction of now has ended, also those of other tests: as long as one goes on, rows that are gone are
        walked over, which is no fault of a plan's either."""
        (now,) = self._own.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())").fetchone() or ("0",)
        until(lambda: self._own.execute(OVER, (now,)).fetchone() == (True,), "others end their transactions", seconds=100)

    def close(self) -> None:
        self._own.close()


def planned(connection: psycopg.Connection[Any], verb: str, known: bool = False) -> dict[str, Any]:
    """The plan that it has from now on, whatever the values."""
    sql = verbs()[verb]
    if not known:
        connection.execute(f"PREPARE holdfast_{verb} AS {sql.positional}".encode())
    nothing = f"({', '.join(['NULL'] * len(sql.names))})" if sql.names else ""
    row = connection.execute(f"EXPLAIN (FORMAT JSON) EXECUTE holdfast_{verb}{nothing}".encode()).fetchone()
    assert row is not None
    plan: dict[str, Any] = row[0][0]["Plan"]
    return plan


# What is measured


def enqueue_one(scene: Scene) -> None:
    scene.task.enqueue(1)


def enqueue_many(scene: Scene) -> None:
    scene.app.enqueue_many(map(scene.task.bind, range(BATCH)))


def enqueue_keyed(scene: Scene) -> None:
    keyed = scene.task.using(key="the same", tags=["tag"], parent="p")
    assert not [keyed.enqueue(number) for number in range(2)][1].created
    job = scene.app.find("the same")
    assert job is not None
    scene.app.delete(job)


def claim_some(scene: Scene) -> None:
    scene.held += scene.claim(BATCH)


def say_something(scene: Scene) -> None:
    scene.settle(scene.held[:BATCH], "say")


def end_some(how: str) -> Callable[[Scene], None]:
    def end(scene: Scene) -> None:
        scene.settle(scene.claim(BATCH), how)

    return end


def look_around(scene: Scene) -> None:
    def make(moment: Moment) -> Op[workers.Work]:
        return (yield from workers.work_to_do(moment, scene.worker, None, ["work"], claim.Cursor(), claims=True, horizon=1))

    assert scene.store.read(make).ready


def enqueue_special(scene: Scene) -> None:
    jobs = [scene.task.using(key=("special", number), tags=["tag"], priority=number % 3).bind(number) for number in range(BATCH)]
    ids = scene.app.enqueue_many(jobs).ids
    assert scene.app.enqueue_many(jobs).created == 0
    for id in ids:
        scene.app.delete(id)


def tend_to_all(scene: Scene) -> None:
    scene.app.enqueue_many(map(scene.task.using(run_after=0.000_1).bind, range(BATCH)))

    def make(moment: Moment) -> Op[None]:
        yield from tend.expire(moment)
        yield from tend.promote(moment)
        yield from tend.next_due(moment)
        yield from tend.forget(moment)

    scene.write(make)


def by_hand(scene: Scene) -> None:
    lease = scene.app.claim(tasks=["work"])
    assert lease is not None
    scene.app.renew(lease)
    scene.app.finish(lease, 7)


def act_and_read(scene: Scene) -> None:
    job = scene.task.enqueue(1)
    scene.app.cancel(job.id)
    scene.app.retry(job.id)
    scene.app.skip(job.id, "enough")
    assert len(list(scene.app.events(job.id))) == 4
    assert scene.app.jobs(limit=5)[0].id == job.id
    scene.app.delete(job.id)


def act_on_one_of_many(scene: Scene) -> None:
    *_, job = scene.app.enqueue_many(map(scene.task.bind, range(BATCH))).ids
    assert len(list(scene.app.events(job))) == 1
    scene.app.cancel(job)
    with pytest.raises(Conflict):
        scene.task.using(id=job).enqueue(1)
    scene.app.delete(job)


def prune_some(scene: Scene) -> None:
    def make(moment: Moment) -> Op[int]:
        return (yield from tend.prune(moment, moment.now, BATCH))

    assert scene.write(make) == BATCH


STEPS: dict[str, Callable[[Scene], None]] = {
    "enqueue": enqueue_one,
    "enqueue_many": enqueue_many,
    "a key, found and freed": enqueue_keyed,
    "enqueue_many with keys, tags and priorities, twice": enqueue_special,
    "claim": claim_some,
    "events and progress": say_something,
    "succeed": end_some("finish"),
    "fail": end_some("fail"),
    "back off": end_some("back_off"),
    "release": end_some("release"),
    "look around": look_around,
    "tend": tend_to_all,
    "claim, renew and finish by hand": by_hand,
    "cancel, retry, skip, delete and read": act_and_read,
    "read, cancel and delete one of a bulk": act_on_one_of_many,
    "prune": prune_some,
}

WHOLE = frozenset({
    "api_key_exists", "api_keys", "claims_of_worker", "depths", "drop_passes", "expired_claims", "feed_now", "forget_api_keys",
    "forget_notices", "forget_workers", "identity", "jobs_by_state", "lane_names", "lanes", "next_due", "queues", "remove_worker",
    "jobs_left", "schema_version", "stale_workers", "work_left", "work_to_do", "worker_loads", "workers",
})  # fmt: skip
"""Verbs that count, or that look at all workers or at all that they hold: there are never very many of those."""
GREEDY = frozenset({"Aggregate", "Hash", "Sort", "Unique", "WindowAgg"})
"""Steps that take all that they can get, however little is asked of them."""
LARGE = frozenset({"job_spec", "job_state", "ready", "scheduled", "finished", "event", "error", "key", "tag", "meter"})

STATISTICS = ("none", "of empty tables", "of full tables", "of tables that were full")


@pytest.fixture(params=STATISTICS)
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    with migrated_database() as url, app_on(url) as app:
        tables = [name for (name,) in ask(url, TABLES)]
        change = "".join(f"ALTER TABLE holdfast.{name} SET (autovacuum_enabled = off);" for name in tables)
        ask(url, change)
        if request.param == "of empty tables":
            ask(url, "VACUUM ANALYZE")
        scene = Scene(app, url)
        try:
            if "full" in request.param:
                scene.fill(MUCH)
                ask(url, "VACUUM ANALYZE")
                ask(url, "".join(f"DELETE FROM holdfast.{name};" for name in tables if name in LARGE))
                if "were" in request.param:
                    ask(url, "VACUUM ANALYZE")
            yield scene
        finally:
            scene.close()
            ask(url, "".join(f"ALTER TABLE holdfast.{name} RESET (autovacuum_enabled);" for name in tables))


def cost(scene: Scene, step: Callable[[Scene], None]) -> int:
    """The least of three: pages are also looked at for a split, or for room."""
    found = []
    for _ in range(3):
        scene.await_others()
        before = scene.pages()
        step(scene)
        found.append(scene.pages() - before)
    return min(found)


def test_every_step_costs_the_same_with_little_and_with_much(scene: Scene) -> None:
    scene.fill(BATCH * 8)
    scene.fill(LITTLE)
    little = {name: cost(scene, step) for name, step in STEPS.items()}
    scene.fill(MUCH)
    much = {name: cost(scene, step) for name, step in STEPS.items()}
    dear = {name: (little[name], much[name]) for name in STEPS if much[name] > 1.5 * little[name] + 40}
    assert dear == {}, "pages with little and with much"


def whole_scans(plan: dict[str, Any], limited: bool = False) -> Iterator[str]:
    """Where a plan reads all of a large table, or keeps a table by it to look through again and again."""
    kind = plan["Node Type"]
    limited = kind == "Limit" or (limited and kind not in GREEDY)
    if kind == "Materialize":
        yield kind
    if "Scan" in kind and "Index Cond" not in plan and plan.get("Relation Name") in LARGE and not limited and kind != "Tid Scan":
        yield f"{kind} of {plan['Relation Name']}"
    for part in plan.get("Plans", ()):
        yield from whole_scans(part, limited)


@pytest.mark.parametrize("analysed", [False, True])
def test_no_plan_that_is_made_on_empty_tables_reads_whole_ones(analysed: bool) -> None:
    """Such a plan looks cheap then, and stays when they fill."""
    with new_database() as url:
        with app_on(url) as app:
            app.migrate()
        with psycopg.connect(plain(url), cursor_factory=psycopg.RawCursor, autocommit=True) as connection:
            if analysed:
                connection.execute("VACUUM ANALYZE")
            connection.execute("BEGIN")
            connection.execute(SETTINGS_LOCAL.encode())
            plans = {verb: planned(connection, verb) for verb in verbs() if verb not in WHOLE}
    found = {verb: list(whole_scans(plan)) for verb, plan in plans.items()}
    assert {verb: scans for verb, scans in found.items() if scans} == {}


def test_people_find_a_job_by_its_id_through_indexes() -> None:
    """In the view for them, whichever way the job came."""
    with migrated_database() as url, app_on(url) as app:
        task = app.task_named("work")
        ids = [task.enqueue(1).id, task.using(id="chosen").enqueue(1).id, *app.enqueue_many(map(task.bind, range(5))).ids]
        with psycopg.connect(plain(url)) as connection:
            for id in ids:
                assert connection.execute("SELECT id, state FROM holdfast.jobs WHERE id = %s", (id,)).fetchall() == [
                    (id, "ready")
                ]
            connection.execute("SET LOCAL enable_seqscan = off")
            plan = str(connection.execute("EXPLAIN SELECT * FROM holdfast.jobs WHERE id = 'x'").fetchall())
    assert "using job_spec_id_key" in plan
