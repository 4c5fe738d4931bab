"""Following what happens, and waiting for what will: a job's events, everybody's events, a job's end.

What a follower does is written once, as steps: give these events, read this, wait. Threads and coroutines each take them in
their own way. A store that does not answer is asked again until it does: that ends nobody's following.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import aclosing
from enum import Enum
from typing import Any, Final, Literal, NamedTuple, TypeVar, overload

from holdfast.client.held_slot import HeldSlot
from holdfast.client.part import ClientPart, id_of
from holdfast.domain.bounds import EVENTS_PAGE_MAX
from holdfast.domain.event import Event
from holdfast.domain.job import Job
from holdfast.domain.retry import Duration, seconds_of
from holdfast.errors import JobNotFound, SettingError, StoreUnavailable
from holdfast.events.follower import Follower, LoopFollower, ThreadFollower
from holdfast.store import browse
from holdfast.store.feed import Cursor, cursor_of, feed_begin, feed_check, feed_end, feed_page
from holdfast.store.op import Moment, Op, Operation

R = TypeVar("R")
T = TypeVar("T")
RETRY_SECONDS: Final = (0.05, 2.0)
_chance: Final = random.SystemRandom()  # the program may have seeded the common one for itself


class Part(NamedTuple):
    """Events, the place behind them, whether it is known that there are more, and whether no more will come."""

    events: list[Event]
    place: Any
    more: bool
    over: bool = False


Step = list[Event] | Operation[Part] | None
"""Give these, read this, or wait."""
Steps = Generator[Step, Part | None, None]


class _Mark(Enum):
    END = 0


END: Final = _Mark.END
End = Literal[_Mark.END]


class Following(ClientPart):
    def events(self, id: str | Job, after: int = 0, follow: bool = False) -> Iterator[Event]:
        """The job's log after event number `after`; with `follow`, on and on until the job has ended."""
        wanted = id_of(id)
        if not follow:
            return self._log(wanted, after, self._database.read(lambda _: browse.events(wanted, after)))
        self._check_outside("events(follow=True)")
        log = self._database.read(lambda _: browse.log(wanted, after))
        follower = ThreadFollower(log.seq, log.place)
        return self._take(follower, self._steps(follower, wanted, _part(log)))

    async def aevents(self, id: str | Job, after: int = 0, follow: bool = False) -> AsyncIterator[Event]:
        """The async twin of `events`."""
        wanted = id_of(id)
        if not follow:
            async for event in self._alog(wanted, after):
                yield event
            return
        self._check_outside("aevents(follow=True)")
        log = await self._database.aread(lambda _: browse.log(wanted, after))
        follower = LoopFollower(log.seq, log.place)
        steps = self._steps(follower, wanted, _part(log))
        del log  # the steps let go of it when it is read
        async with aclosing(self._atake(follower, steps)) as events:
            async for event in events:
                yield event

    def feed(self, after: str | None = None, follow: bool = False) -> Iterator[Event]:
        """What happens to all jobs, each job's events in their order; with `follow`, on and on.

        after  the `cursor` of the last event that you have; None: from now on; "": from the oldest that is kept
        """
        if follow:
            self._check_outside("feed(follow=True)")
        begin = self._database.read(_beginning(after))
        follower = ThreadFollower(None, begin)
        return self._take(follower, self._steps(follower, "", Part([], begin, more=True), follow))

    async def afeed(self, after: str | None = None, follow: bool = False) -> AsyncIterator[Event]:
        """The async twin of `feed`."""
        if follow:
            self._check_outside("afeed(follow=True)")
        begin = await self._database.aread(_beginning(after))
        follower = LoopFollower(None, begin)
        async with aclosing(self._atake(follower, self._steps(follower, "", Part([], begin, more=True), follow))) as events:
            async for event in events:
                yield event

    @overload
    def wait(self, id: Job[R], timeout: Duration | None = None) -> Job[R]: ...
    @overload
    def wait(self, id: str, timeout: Duration | None = None) -> Job: ...
    def wait(self, id: str | Job, timeout: Duration | None = None) -> Job:
        """The job, once it has ended; `TimeoutError` if that takes longer than `timeout`.

        In a task it keeps the slot of the job that waits. If all slots are kept like that nothing goes on, which is logged.
        """
        self._check_outside("wait()")
        wanted, deadline = id_of(id), _deadline(timeout)
        seq, job = self._database.read(self._job(wanted))
        follower, held = ThreadFollower(seq, job.event_count, silent=True), HeldSlot()
        try:
            while not job.final:
                self._await_end(follower, job)
                if not follower.over:
                    follower.wait(held.within(_left(deadline, job)))
                _, job = self._patiently(self._job(wanted), deadline)
                held.look(job)
            return job
        finally:
            self._feed.leave(follower)

    @overload
    async def await_job(self, id: Job[R], timeout: Duration | None = None) -> Job[R]: ...  # noqa: ASYNC109 (as its twin)
    @overload
    async def await_job(self, id: str, timeout: Duration | None = None) -> Job: ...  # noqa: ASYNC109 (as its twin)
    async def await_job(self, id: str | Job, timeout: Duration | None = None) -> Job:  # noqa: ASYNC109 (as its twin)
        """The async twin of `wait`, whose name would be a keyword."""
        self._check_outside("await_job()")
        wanted, deadline = id_of(id), _deadline(timeout)
        seq, job = await self._database.aread(self._job(wanted))
        follower, held = LoopFollower(seq, job.event_count, silent=True), HeldSlot()
        try:
            while not job.final:
                self._await_end(follower, job)
                if not follower.over:
                    await _wait_for(follower, held.within(_left(deadline, job)))
                _, job = await self._apatiently(self._job(wanted), deadline)
                held.look(job)
            return job
        finally:
            self._feed.leave(follower)

    # A page after the other

    def _log(self, id: str, after: int, page: list[Event]) -> Iterator[Event]:
        while True:
            yield from page
            if len(page) < EVENTS_PAGE_MAX:
                return
            after = page[-1].number
            page = self._database.read(_log_after(id, after))

    async def _alog(self, id: str, after: int) -> AsyncIterator[Event]:
        while True:
            page = await self._database.aread(_log_after(id, after))
            for event in page:
                yield event
            if len(page) < EVENTS_PAGE_MAX:
                return
            after = page[-1].number

    # Step by step

    def _steps(
        self, follower: Follower, id: str, part: Part | None, follow: bool = True, page_max: int = EVENTS_PAGE_MAX
    ) -> Steps:
        read = _reading_feed(page_max) if follower.key is None else _reading_log(id, follower.key, page_max)
        while part is not None:
            follower.place = part.place
            yield part.events
            if part.over or not (part.more or follow):
                return
            if not part.more:
                self._feed.attach(follower, id)
            del part  # or else it is held for as long as nothing has to be read
            while True:
                over, behind = follower.over, follower.behind  # before the mailbox, which was filled before these were set
                if mail := follower.take():
                    yield mail
                elif over:
                    return
                elif behind:
                    break
                else:
                    yield None
            part = yield read(follower.place)

    def _take(self, follower: ThreadFollower, steps: Steps) -> Generator[Event]:
        reply: Part | None = None
        try:
            while (step := _next(steps, reply)) is not END:
                reply = None
                if step is None:
                    follower.wait()
                elif isinstance(step, list):
                    yield from step
                elif callable(step):
                    reply = self._part(step)
        finally:
            self._feed.leave(follower)

    async def _atake(self, follower: LoopFollower, steps: Steps) -> AsyncGenerator[Event]:
        reply: Part | None = None
        try:
            while (step := _next(steps, reply)) is not END:
                reply = None
                if step is None:
                    await follower.wait()
                elif isinstance(step, list):
                    for event in step:
                        yield event
                elif callable(step):
                    reply = await self._apart(step)
        finally:
            self._feed.leave(follower)

    def _part(self, make: Operation[Part]) -> Part | None:
        """None: the job was deleted meanwhile."""
        try:
            return self._patiently(make)
        except JobNotFound:
            return None

    async def _apart(self, make: Operation[Part]) -> Part | None:
        try:
            return await self._apatiently(make)
        except JobNotFound:
            return None

    def _patiently(self, make: Operation[T], deadline: float | None = None) -> T:
        for pause in _pauses(deadline):
            try:
                return self._database.read(make)
            except StoreUnavailable:
                if pause is None:
                    raise
                time.sleep(pause)
        raise AssertionError

    async def _apatiently(self, make: Operation[T], deadline: float | None = None) -> T:
        for pause in _pauses(deadline):
            try:
                return await self._database.aread(make)
            except StoreUnavailable:
                if pause is None:
                    raise
                await asyncio.sleep(pause)
        raise AssertionError

    # The end of a job

    def _await_end(self, follower: Follower, job: Job) -> None:
        follower.place, follower.over = job.event_count, False
        self._feed.attach(follower, job.id)

    def _job(self, id: str) -> Operation[tuple[int, Job]]:
        def make(_: Moment) -> Op[tuple[int, Job]]:
            return (yield from browse.numbered(id, self._registry.decoders))

        return make

    def _check_outside(self, method: str) -> None:
        """A transaction sees what was when it began: a wait in it could last for ever."""
        if self._app is not None:
            raise SettingError(f"{method} cannot be used inside a transaction, which does not see what others do; commit first")


def _next(steps: Steps, reply: Part | None) -> Step | End:
    try:
        return steps.send(reply)
    except StopIteration:
        return END


def _part(log: browse.Log, page_max: int = EVENTS_PAGE_MAX) -> Part:
    return Part(log.events, log.place, more=len(log.events) == page_max, over=log.ended)


def _log_after(id: str, after: int) -> Operation[list[Event]]:
    return lambda _: browse.events(id, after)


def _reading_log(id: str, seq: int, page_max: int) -> Callable[[int], Operation[Part]]:
    def read(after: int) -> Operation[Part]:
        def make(_: Moment) -> Op[Part]:
            log = yield from browse.log(id, after, page_max)
            if log.seq != seq:
                raise JobNotFound(f"job {id} was deleted, and another has its id now")
            return _part(log, page_max)

        return make

    return read


def _reading_feed(page_max: int) -> Callable[[Cursor], Operation[Part]]:
    def read(place: Cursor) -> Operation[Part]:
        def make(_: Moment) -> Op[Part]:
            return Part(*(yield from feed_page(place, page_max)))

        return make

    return read


def _beginning(after: str | None) -> Operation[Cursor]:
    if after is None:
        return lambda _: feed_end()
    if after == "":
        return lambda _: feed_begin()
    cursor = cursor_of(after)
    return lambda _: feed_check(cursor)


def _pauses(deadline: float | None) -> Iterator[float | None]:
    """Longer and longer, each by chance a little shorter; None: this is the last try."""
    pause, longest = RETRY_SECONDS
    while True:
        late = deadline is not None and time.monotonic() + pause > deadline
        yield None if late else pause * _chance.uniform(0.5, 1.0)
        pause = min(longest, pause * 2)


async def _wait_for(follower: LoopFollower, seconds: float | None) -> None:
    try:
        async with asyncio.timeout(seconds):
            await follower.wait()
    except TimeoutError:
        return


def _deadline(timeout: Duration | None) -> float | None:
    return None if timeout is None else time.monotonic() + seconds_of("timeout", timeout)


def _left(deadline: float | None, job: Job) -> float | None:
    if deadline is None:
        return None
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError(f"job {job.id} is still {job.state} after the time given")
    return left
