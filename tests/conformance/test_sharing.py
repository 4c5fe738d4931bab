"""Many callers, one commit: each is answered after it, and one that fails takes nobody along."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from holdfast import Conflict, IllegalMove, Job, Key, StoreUnavailable
from holdfast.store import commits as sharing
from holdfast.store.commits import Entry, ThreadEntry
from holdfast.store.op import Moment, Op, Operation, Statement
from tests.conformance.world import World
from tests.store.inside import commits_of, trouble, waiting


class Crowd:
    """Calls that share one commit: all of them are waiting when the one before them lets go."""

    def __init__(self, store: World) -> None:
        self.store = store
        commits_of(store.app)
        self.answers: dict[int, object] = {}

    def run(self, *calls: Callable[[], object]) -> list[object]:
        inside, leave = threading.Event(), threading.Event()

        def hold(moment: Moment) -> Op[None]:
            inside.set()
            assert leave.wait(30)
            yield Statement("lane_names")

        first = threading.Thread(target=lambda: self.store.app.store.write(hold))
        first.start()
        assert inside.wait(30)
        threads = [threading.Thread(target=self._call, args=(number, call)) for number, call in enumerate(calls)]
        for number, thread in enumerate(threads, 1):
            thread.start()
            self._await_waiting(number)
        leave.set()
        for thread in [first, *threads]:
            thread.join(30)
        return [self.answers[number] for number in range(len(calls))]

    def _await_waiting(self, count: int) -> None:
        while waiting(self.store.app) < count:
            pass

    def _call(self, number: int, call: Callable[[], object]) -> None:
        try:
            self.answers[number] = call()
        except BaseException as error:
            self.answers[number] = error


@pytest.fixture
def commits(store: World) -> list[str]:
    seen: list[str] = []
    store.app.migrate()
    store.app.store.probe = lambda place: seen.append(place) if place == "committed" else None
    return seen


def test_callers_that_wait_together_are_committed_together(store: World, commits: list[str]) -> None:
    answers = Crowd(store).run(*[lambda n=n: store.add.enqueue(n) for n in range(20)])
    assert all(isinstance(answer, Job) for answer in answers)
    assert store.app.stats() == {"add": {"ready": 20}}
    assert len(commits) == 2


def test_a_caller_that_fails_undoes_its_own_work_only(store: World, commits: list[str]) -> None:
    store.add.using(key="k", id="holder").enqueue(0)
    ended = store.app.cancel(store.add.enqueue(1).id)
    raising = store.add.using(key=Key("k", conflict="raise"))
    commits.clear()
    answers = Crowd(store).run(
        lambda: store.add.enqueue(1),
        lambda: raising.enqueue(2),
        lambda: store.app.enqueue_many([store.once.bind("x"), raising.bind(3)]),
        lambda: store.app.cancel(ended.id),
        lambda: store.app.enqueue_many(store.add.using(id="twice").bind(n) for n in range(2)),
        lambda: store.add.enqueue(4),
    )
    assert [type(answer) for answer in answers] == [Job, Conflict, Conflict, IllegalMove, Conflict, Job]
    assert store.app.stats() == {"add": {"ready": 3, "cancelled": 1}}
    assert len(commits) == 2


def test_a_caller_that_breaks_half_way_leaves_nothing_half_written(store: World, commits: list[str]) -> None:
    def broken(moment: Moment) -> Op[None]:
        yield Statement("add_lane", {"queue": "half", "task": "written"})
        raise RuntimeError("broken in the middle")

    make: Operation[None] = broken
    answers = Crowd(store).run(lambda: store.add.enqueue(1), lambda: store.app.store.write(make), lambda: store.add.enqueue(2))
    assert [type(answer) for answer in answers] == [Job, RuntimeError, Job]
    assert store.rows("SELECT queue FROM holdfast_lane") == [("default",)]


def test_an_error_of_the_database_itself_is_told_to_all_who_shared_the_transaction(store: World, commits: list[str]) -> None:
    def impossible(moment: Moment) -> Op[None]:
        yield Statement("lane_names")
        raise trouble(store.app, "disk I/O error")

    before = store.everything()
    make: Operation[None] = impossible
    answers = Crowd(store).run(lambda: store.add.enqueue(1), lambda: store.app.store.write(make))
    assert [isinstance(answer, StoreUnavailable) for answer in answers] == [True, True]
    assert store.everything() == before
    assert store.add.enqueue(1).created


def test_a_caller_that_is_interrupted_while_it_waits_does_not_stop_the_others(
    store: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = ThreadEntry.wait
    unlucky: list[ThreadEntry[object]] = []

    def interrupted(entry: ThreadEntry[object], seconds: float) -> bool:
        unlucky.append(entry)
        if unlucky[0] is not entry:
            return waiting(entry, seconds)
        waiting(entry, 30)
        raise KeyboardInterrupt

    store.app.migrate()
    monkeypatch.setattr(ThreadEntry, "wait", interrupted)
    answers = Crowd(store).run(*[lambda n=n: store.add.enqueue(n) for n in range(3)])
    assert [type(answer) for answer in answers] == [KeyboardInterrupt, Job, Job]
    assert store.add.enqueue(4).created


def test_an_heir_that_is_interrupted_before_it_hears_of_it_does_not_stop_the_others(
    store: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = ThreadEntry.wait
    unlucky: list[ThreadEntry[object]] = []

    def interrupted(entry: ThreadEntry[object], seconds: float) -> bool:
        unlucky.append(entry)
        if unlucky[0] is not entry:
            return waiting(entry, seconds)
        while not entry.leads:
            pass
        raise KeyboardInterrupt

    store.app.migrate()
    monkeypatch.setattr(ThreadEntry, "wait", interrupted)
    answers = Crowd(store).run(*[lambda n=n: store.add.enqueue(n) for n in range(3)])
    assert [type(answer) for answer in answers] == [KeyboardInterrupt, Job, Job]
    assert store.add.enqueue(4).created


@pytest.mark.parametrize("step", ["_commit", "_commit_waiting", "_hand_on"])
@pytest.mark.parametrize("where", ["thread", "loop"])
def test_who_waits_takes_over_from_a_leader_that_was_interrupted_between_its_steps(
    store: World, monkeypatch: pytest.MonkeyPatch, step: str, where: str
) -> None:
    store.app.migrate()
    monkeypatch.setattr(sharing, "WAIT_SECONDS", 0.01)
    queue = commits_of(store.app)
    whole, steps = getattr(queue, step), 0
    theirs = 2 if step == "_hand_on" else 1  # the one that the crowd waits for commits alone, then hands on

    def interrupted(*given: list[Entry[object]]) -> None:
        nonlocal steps
        steps += 1
        if steps == theirs:
            raise KeyboardInterrupt
        whole(*given)

    def enqueue(number: int) -> Job:
        return store.add.enqueue(number) if where == "thread" else asyncio.run(store.add.aenqueue(number))

    monkeypatch.setattr(queue, step, interrupted)
    answers = Crowd(store).run(lambda: store.add.enqueue(1), lambda: enqueue(2), lambda: enqueue(3))
    kept = {number for number, answer in enumerate(answers, 1) if isinstance(answer, Job)}
    assert steps >= theirs
    # Mostly the first; on a busy machine another may have led, or a thread of the store's for one of them.
    assert [type(answer) for answer in answers if not isinstance(answer, Job)] in ([KeyboardInterrupt], [])
    assert store.add.enqueue(4).created
    jobs = sorted(job.arguments["a"] for job in store.app.jobs())
    assert jobs in (sorted({*kept, 4}), [1, 2, 3, 4])  # with or without that of the interrupted one, and nothing twice


def test_a_caller_that_is_woken_for_nothing_waits_on(store: World) -> None:
    def disturb() -> Job:
        for entry in commits_of(store.app).waiting:
            entry.wake()
        return store.add.enqueue(3)

    store.app.migrate()
    answers = Crowd(store).run(lambda: store.add.enqueue(1), lambda: asyncio.run(store.add.aenqueue(2)), disturb)
    assert [type(answer) for answer in answers] == [Job] * 3


def test_sixteen_threads_and_two_apps_lose_nothing(store: World) -> None:
    apps = [store.app, store.another()]
    accepted: list[str] = []

    def ask(number: int) -> None:
        task = apps[number % 2].task_named("add")
        accepted.extend(task.enqueue(n).id for n in range(15))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(accepted)) == 240
    assert {job.id for job in store.app.jobs(limit=1000)} == set(accepted)


def test_threads_are_woken_one_by_the_other_past_those_that_have_gone() -> None:
    """All at once they would only queue for the interpreter."""
    first, gone, leader, last = entries = [ThreadEntry(nothing) for _ in range(4)]
    gone.abandoned = leader.leads = True
    sharing._wake_all(entries)
    assert first.wait(0)
    assert not last.wait(0)
    first.wake_next()
    assert last.wait(0)


def nothing(moment: Moment) -> Op[None]:
    yield Statement("lane_names")
