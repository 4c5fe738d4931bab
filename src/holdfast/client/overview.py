"""How things stand, queue by queue."""

from __future__ import annotations

from holdfast.client.part import ClientPart
from holdfast.domain.queue import Queue
from holdfast.store import queues


class Overview(ClientPart):
    def queues(self) -> list[Queue]:
        """Every queue that ever had a job, with how many of its jobs are where."""
        return self._database.read(lambda _: queues.queues())

    async def aqueues(self) -> list[Queue]:
        """The async twin of `queues`."""
        return await self._database.aread(lambda _: queues.queues())
