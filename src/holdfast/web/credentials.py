"""Who holds a key, the token, a session or a ticket. What was read from the store is taken for good for some seconds.

When keys were last used is written down once a minute, by nobody's request: to read never writes.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from holdfast.app import Holdfast
from holdfast.domain.access import Scope, digest_of, fits, parts_of
from holdfast.domain.job import moment_of
from holdfast.domain.sanitize import one_line
from holdfast.errors import HoldfastError, SettingError
from holdfast.store import access
from holdfast.store.access import Pass, Stored
from holdfast.store.feed import feed_end
from holdfast.web import token
from holdfast.web.access import LOCAL, Caller
from holdfast.web.settings import WebSettings

log = logging.getLogger("holdfast.web")

REMEMBERED_MAX: Final = 1_024
USES_SECONDS: Final = 60.0
SESSION: Final = "session"
TICKET: Final = "ticket"

T = TypeVar("T")


@dataclass(slots=True)
class _Seen(Generic[T]):
    value: T
    tick: int


class Memory(Generic[T]):
    """What was read of late, the oldest forgotten first."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, _Seen[T]] = OrderedDict()

    def get(self, name: str) -> _Seen[T] | None:
        return self._seen.get(name)

    def put(self, name: str, value: T, tick: int) -> None:
        self._seen[name] = _Seen(value, tick)
        self._seen.move_to_end(name)
        if len(self._seen) > REMEMBERED_MAX:
            self._seen.popitem(last=False)

    def drop(self, name: str) -> None:
        self._seen.pop(name, None)


class Keyring:
    def __init__(self, app: Holdfast, settings: WebSettings) -> None:
        self._store, self._clock = app.store, app.store.clock
        self._settings = settings
        self._lasting = int(settings.recheck_seconds * 1e6)
        self._keys: Memory[Stored] = Memory()
        self._sessions: Memory[Pass] = Memory()
        self._any: _Seen[bool] | None = None
        self._token: str | None = None
        self._uses: dict[str, int] = {}
        self._writing: asyncio.Task[None] | None = None

    # Keys

    async def holder(self, text: str) -> Caller | None:
        """Who has this key, if it is one and may be used; or the token."""
        parts = parts_of(text)
        if parts is None:
            return self._keyless() if await self._is_token(text) else None
        found = await self._key(parts[0])
        if found is None or not fits(parts[1], found.digest) or not self._usable(found):
            return None
        return self._caller(found)

    def _caller(self, found: Stored) -> Caller:
        key = found.key
        self._note_use(key.prefix)
        return Caller(
            key.name,
            key.scope,
            None if key.queues is None else frozenset(key.queues),
            identity=key.prefix,
            recheck=lambda: self._stands(key.prefix, found.digest),
        )

    async def _stands(self, prefix: str, digest: str) -> bool:
        found = await self._key(prefix)
        return found is not None and found.digest == digest and self._usable(found)

    def _usable(self, found: Stored) -> bool:
        return found.key.usable(moment_of(self._clock.now()))

    async def _key(self, prefix: str) -> Stored | None:
        seen = self._keys.get(prefix)
        if seen is not None and self._is_fresh(seen):
            return seen.value
        if seen is not None:
            seen.tick = self._clock.tick()  # others who come meanwhile need not ask too
        try:
            found = await self._store.aread(lambda _: access.key(prefix))
        except BaseException:
            self._keys.drop(prefix)
            raise
        if found is None:
            self._keys.drop(prefix)
        else:
            self._keys.put(prefix, found, self._clock.tick())
        return found

    # Sessions and tickets

    async def open_session(self, caller: Caller) -> str:
        """A secret for a browser's cookie."""
        seconds, prefix = self._settings.session_seconds, _prefix_of(caller)
        return await self._store.awrite(lambda moment: access.give_pass(moment, SESSION, seconds, prefix))

    async def close_session(self, secret: str) -> None:
        self._sessions.drop(digest_of(secret))
        await self._store.awrite(lambda moment: access.take_pass(moment, SESSION, secret))

    async def visitor(self, secret: str) -> Caller | None:
        """Whose session it is."""
        session = await self._session(secret)
        caller = None if session is None else await self._holder_of(session)
        if caller is None:
            return None

        async def stands() -> bool:
            return await self._session(secret) is not None and await caller.is_current()

        return replace(caller, recheck=stands)

    async def _session(self, secret: str) -> Pass | None:
        name = digest_of(secret)
        seen = self._sessions.get(name)
        if seen is None or not self._is_fresh(seen):
            found = await self._store.aread(lambda moment: access.find_pass(moment, SESSION, secret))
            if found is None:
                self._sessions.drop(name)
                return None
            self._sessions.put(name, found, self._clock.tick())
            return found
        return seen.value if self._clock.now() < seen.value.expires_at else None

    async def give_ticket(self, caller: Caller, job: str) -> str:
        seconds, prefix = self._settings.ticket_seconds, _prefix_of(caller)
        return await self._store.awrite(lambda moment: access.give_pass(moment, TICKET, seconds, prefix, job))

    async def take_ticket(self, secret: str) -> Caller | None:
        """Whose ticket it was; it is good once. What is none costs a read, not a write."""
        if await self._store.aread(lambda moment: access.find_pass(moment, TICKET, secret)) is None:
            return None
        taken = await self._store.awrite(lambda moment: access.take_pass(moment, TICKET, secret))
        caller = None if taken is None else await self._holder_of(taken)
        return None if taken is None or caller is None else replace(caller, scope=Scope.READ, job=taken.job)

    async def _holder_of(self, given: Pass) -> Caller | None:
        """Who was given it: a key's holder while the key is good, or who had no key while there is none."""
        if given.prefix is None:
            return self._keyless() if await self.is_keyless() else None
        found = await self._key(given.prefix)
        return self._caller(found) if found is not None and self._usable(found) else None

    # Without a key

    def _keyless(self) -> Caller:
        return replace(LOCAL, recheck=self.is_keyless)

    async def _is_token(self, text: str) -> bool:
        """Whether it is the token, and no key was ever made."""
        if self._settings.auth == "on" or not await self.is_keyless():
            return False
        if self._token is None:
            self._token = self._settings.token or await self._kept()
        return hmac.compare_digest(text.encode(), self._token.encode())

    async def _kept(self) -> str:
        mark = (await self._store.aread(lambda _: feed_end())).mark
        try:
            return token.kept(mark)
        except SettingError as error:
            log.warning("nobody can come in without an API key: %s", error)
            return token.new_token()  # and nobody has it

    async def is_keyless(self) -> bool:
        """Whether a key is not needed: none was ever made, or nobody is asked for one."""
        if self._settings.auth != "auto":
            return self._settings.auth == "off"
        if self._any is None or not (self._any.value or self._is_fresh(self._any)):
            self._any = _Seen(await self._store.aread(lambda _: access.any_key()), self._clock.tick())
        return not self._any.value

    def _is_fresh(self, seen: _Seen[T]) -> bool:
        return self._clock.tick() - seen.tick < self._lasting

    # Uses

    def _note_use(self, prefix: str) -> None:
        if not self._uses and self._writing is None:
            asyncio.get_running_loop().call_later(USES_SECONDS, self._begin_writing)
        self._uses[prefix] = self._clock.now()

    def _begin_writing(self) -> None:
        self._writing = asyncio.get_running_loop().create_task(self.write_uses())

    async def write_uses(self) -> None:
        uses, self._uses = self._uses, {}
        try:
            await self._store.awrite(lambda _: access.note_uses(uses))
        except HoldfastError as error:
            log.warning("when API keys were used could not be written down (%s)", one_line(str(error)))
        finally:
            self._writing = None


def _prefix_of(caller: Caller) -> str | None:
    return None if caller.identity == LOCAL.identity else caller.identity
