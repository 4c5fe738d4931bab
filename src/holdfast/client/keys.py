"""API keys: credentials for the HTTP API."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from holdfast.client.part import ClientPart
from holdfast.domain.access import ApiKey, NewApiKey, Scope, check_key_name, check_prefix, check_queues, check_scope
from holdfast.domain.bounds import SECONDS_MAX
from holdfast.domain.job import micros_of
from holdfast.domain.retry import Duration, seconds_of
from holdfast.errors import SettingError
from holdfast.store import access
from holdfast.store.op import Moment, Op, Operation


class Keys(ClientPart):
    def keys(self) -> list[ApiKey]:
        """All API keys, the oldest first; those that were revoked or have expired stay listed for 90 days."""
        return self._database.read(lambda _: access.keys())

    async def akeys(self) -> list[ApiKey]:
        """The async twin of `keys`."""
        return await self._database.aread(lambda _: access.keys())

    def add_key(
        self,
        name: str,
        scope: Scope | str = Scope.READ,
        queues: Iterable[str] | None = None,
        expires: datetime | Duration | None = None,
    ) -> NewApiKey:
        """A new API key; its `.text` is known now and never again.

        scope    `read`, `operate` (also enqueue, cancel, retry, …) or `admin` (also pause, resume, …)
        queues   the only ones that it may see; all if not given
        expires  an aware datetime, or seconds (or a timedelta) from now; never if not given
        """
        return self._database.write(_adding(name, scope, queues, expires))

    async def aadd_key(
        self,
        name: str,
        scope: Scope | str = Scope.READ,
        queues: Iterable[str] | None = None,
        expires: datetime | Duration | None = None,
    ) -> NewApiKey:
        """The async twin of `add_key`."""
        return await self._database.awrite(_adding(name, scope, queues, expires))

    def revoke_key(self, prefix: str | ApiKey) -> ApiKey:
        """Refuse this key from now on: servers do so within a minute, in open streams too."""
        return self._database.write(_revoking(prefix))

    async def arevoke_key(self, prefix: str | ApiKey) -> ApiKey:
        """The async twin of `revoke_key`."""
        return await self._database.awrite(_revoking(prefix))


def _adding(
    name: str, scope: Scope | str, queues: Iterable[str] | None, expires: datetime | Duration | None
) -> Operation[NewApiKey]:
    chosen = check_key_name(name), check_scope(scope), check_queues(queues)
    at = micros_of(expires) if isinstance(expires, datetime) else None
    later = None if expires is None or isinstance(expires, datetime) else seconds_of("expires", expires, positive=True)

    def make(moment: Moment) -> Op[NewApiKey]:
        due = at if later is None else moment.now + int(min(later, SECONDS_MAX) * 1e6)
        if due is not None and due <= moment.now:
            raise SettingError(f"expires={expires} is over already; give a time to come, or seconds from now")
        return (yield from access.add_key(moment, *chosen, due))

    return make


def _revoking(prefix: str | ApiKey) -> Operation[ApiKey]:
    wanted = prefix.prefix if isinstance(prefix, ApiKey) else check_prefix(prefix)
    return lambda moment: access.revoke_key(moment, wanted)
