"""Following in lots: what there is, many events at a time, and an empty one when there was nothing for a while.

For who passes events on, as a stream over HTTP does: the same steps as of `following`, taken by a coroutine that must not wait
longer than it was told to.
"""

from __future__ import annotations

import asyncio
from typing import Final

from holdfast.client.following import END, Following, Part, Steps, _beginning, _next, _part
from holdfast.domain.event import Event
from holdfast.events.follower import LoopFollower
from holdfast.store import browse

LOT_MAX: Final = 100
"""Events that are read for one who passes them on: it may hold them for as long as somebody reads slowly, each up to 64 KB."""


class EventBatches:
    """To be closed at the end."""

    def __init__(self, client: Following, follower: LoopFollower, steps: Steps) -> None:
        self._client, self._follower, self._steps = client, follower, steps
        self._reply: Part | None = None

    async def next(self, seconds: float) -> list[Event] | None:
        """The next events; none of them if nothing came for so long; None: nothing will come any more."""
        while (step := _next(self._steps, self._reply)) is not END:
            self._reply = None
            if step is None:
                if not await self._wait(seconds):
                    return []
            elif callable(step):
                self._reply = await self._client._apart(step)
            elif step:
                return step
        return None

    async def _wait(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._follower.wait()
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        self._client._feed.leave(self._follower)


async def job_batches(client: Following, id: str, after: int) -> EventBatches:
    """What happens to one job, until it has ended."""
    log = await client._database.aread(lambda _: browse.log(id, after, LOT_MAX))
    follower = LoopFollower(log.seq, log.place)
    return EventBatches(client, follower, client._steps(follower, id, _part(log, LOT_MAX), page_max=LOT_MAX))


async def feed_batches(client: Following, after: str | None) -> EventBatches:
    """What happens to all of them, without an end."""
    begin = await client._database.aread(_beginning(after))
    follower = LoopFollower(None, begin)
    return EventBatches(client, follower, client._steps(follower, "", Part([], begin, more=True), page_max=LOT_MAX))
