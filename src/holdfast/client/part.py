"""What every part of the client has: the database, the tasks, and the feed of commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.domain.job import Job
from holdfast.domain.text import show
from holdfast.errors import SettingError
from holdfast.events.feed import Feed
from holdfast.events.webhook.courier import Courier
from holdfast.registry import Registry
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


def id_of(job: str | Job) -> str:
    """A job's id, wherever a job or its id may be passed."""
    if isinstance(job, Job):
        return job.id
    if not isinstance(job, str):
        raise SettingError(f"{show(job)} is no job and no id of one; pass job.id")
    return job
