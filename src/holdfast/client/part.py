"""What every part of the client has: the database, the tasks, and the feed of commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.domain.job import Job
from holdfast.domain.text import show
from holdfast.errors import SettingError
from holdfast.events.feed import Feed
from holdfast.events.webhook.courier import Courier
from holdfast.registry import Registry
from holdfast.store.queue_settings import declare_all
from holdfast.store.store import Database

if TYPE_CHECKING:
    from holdfast.client import Client


class ClientPart:
    def __init__(self, database: Database, registry: Registry, feed: Feed, app: Client | None = None) -> None:
        self._database = database
        self._registry = registry
        self._feed = feed
        self.courier: Courier = Courier() if app is None else app.courier
        """Checks callbacks, and delivers them."""
        self._app = app
        """Set where the door is the caller's own connection: the app that this client is part of."""

    def _declare(self) -> None:
        """What the code says of its queues is in the database before the first job that it is for."""
        declared = dict(self._registry.undeclared)
        self._database.write(lambda moment: declare_all(moment, declared))
        self._declared(declared)

    async def _adeclare(self) -> None:
        declared = dict(self._registry.undeclared)
        await self._database.awrite(lambda moment: declare_all(moment, declared))
        self._declared(declared)

    def _declared(self, declared: dict[str, Any]) -> None:
        if self._app is None:  # else the caller may yet roll it back
            self._registry.declared(declared)


def id_of(job: str | Job) -> str:
    """A job's id, wherever a job or its id may be passed."""
    if isinstance(job, Job):
        return job.id
    if not isinstance(job, str):
        raise SettingError(f"{show(job)} is no job and no id of one; pass job.id")
    return job
