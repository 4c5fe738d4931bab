"""Queues are declared, changed, paused and resumed."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Callable
from typing import Any

from holdfast.client.part import ClientPart
from holdfast.domain.bounds import NAME_CHARS_MAX, REASON_CHARS_MAX
from holdfast.domain.event import check_own_name
from holdfast.domain.limits import Breaker, Rate, checked
from holdfast.domain.retry import Duration, seconds_of
from holdfast.domain.text import clip
from holdfast.errors import SettingError
from holdfast.store import queue_settings
from holdfast.store.op import Moment, Op, Operation
from holdfast.store.queue_settings import QueueChange


class Queues(ClientPart):
    def queue(
        self,
        name: str,
        *,
        max_depth: int | None = None,
        concurrency: int | None = None,
        gap: Duration | None = None,
        rate: Rate | tuple[Rate, ...] | None = None,
        breaker: Breaker | None = None,
        paused: bool = False,
    ) -> None:
        """Declare a queue's limits. They are kept in the database, and hold over all processes and machines.

        max_depth    jobs accepted and not yet started; a new one beyond it raises `QueueFull`
        concurrency  jobs that run at once
        gap          seconds from the end of one run to the next start
        rate         starts per time: `Rate(60, per=60)`; several, as a tuple, all hold
        breaker      stops the queue after failures in a row: `Breaker(after=2, base=15, cap=300)`
        paused       nothing of it starts until it is resumed

        The declaration is written when the app next enqueues or works. If it is not the one that was written last, it replaces
        what was changed live.
        """
        options = {"max_depth": max_depth, "concurrency": concurrency, "gap": gap, "rate": rate, "breaker": breaker}
        given = {option: value for option, value in options.items() if value is not None}
        self._registry.declare(check_own_name("queue", name), checked({**given, **({"paused": True} if paused else {})}))

    def change_queue(self, name: str, *, actor: str | None = None, change_count: int | None = None, **options: Any) -> None:
        """Change limits of a queue live, by the options of `queue`; None takes a limit away.

        actor         for the log: whoever changes it; the user and the host, if not given
        change_count  that of the `Queue` that was looked at: `Changed` is raised if there has been another change since
        """
        self._database.write(self._change(name, actor, change_count, options))

    async def achange_queue(
        self, name: str, *, actor: str | None = None, change_count: int | None = None, **options: Any
    ) -> None:  # fmt: skip
        """The async twin of `change_queue`."""
        await self._database.awrite(self._change(name, actor, change_count, options))

    def _change(self, name: str, actor: str | None, change_count: int | None, options: dict[str, Any]) -> Operation[None]:
        queue, fields, by = check_own_name("queue", name), checked(options), _actor(actor)
        if not fields:
            raise SettingError(f"nothing to change about queue {queue}; give for example concurrency=2")
        return self._with_declared(lambda moment: queue_settings.change(moment, queue, fields, by, change_count))

    def reset_queue(self, name: str, *, actor: str | None = None) -> None:
        """Take back what was changed live: what the code declares holds again."""
        self._database.write(self._reset(name, actor))

    async def areset_queue(self, name: str, *, actor: str | None = None) -> None:
        """The async twin of `reset_queue`."""
        await self._database.awrite(self._reset(name, actor))

    def _reset(self, name: str, actor: str | None) -> Operation[None]:
        queue, by = check_own_name("queue", name), _actor(actor)
        return self._with_declared(lambda moment: queue_settings.reset(moment, queue, by))

    def pause(self, queue: str, seconds: Duration | None = None, *, reason: str = "", actor: str | None = None) -> None:
        """Nothing of the queue starts, for so many seconds or until `resume`. What runs goes on."""
        self._database.write(self._pause(queue, seconds, reason, actor))

    async def apause(self, queue: str, seconds: Duration | None = None, *, reason: str = "", actor: str | None = None) -> None:
        """The async twin of `pause`."""
        await self._database.awrite(self._pause(queue, seconds, reason, actor))

    def _pause(self, queue: str, seconds: Duration | None, reason: str, actor: str | None) -> Operation[None]:
        name, by, why = check_own_name("queue", queue), _actor(actor), clip(reason, REASON_CHARS_MAX)
        micros = None if seconds is None else int(seconds_of("pause", seconds, positive=True) * 1e6)
        return self._with_declared(lambda moment: queue_settings.pause(moment, name, micros, by, why))

    def resume(self, queue: str, *, actor: str | None = None) -> bool:
        """The queue's jobs start again. False: it was not paused."""
        return self._database.write(self._resume(queue, actor))

    async def aresume(self, queue: str, *, actor: str | None = None) -> bool:
        """The async twin of `resume`."""
        return await self._database.awrite(self._resume(queue, actor))

    def _resume(self, queue: str, actor: str | None) -> Operation[bool]:
        name, by = check_own_name("queue", queue), _actor(actor)
        return self._with_declared(lambda moment: queue_settings.resume(moment, name, by))

    def queue_changes(self, queue: str) -> list[QueueChange]:
        """What was changed about a queue, when and by whom; the newest first, at most a hundred."""
        name = check_own_name("queue", queue)
        return self._database.read(lambda _: queue_settings.changes(name))

    async def aqueue_changes(self, queue: str) -> list[QueueChange]:
        """The async twin of `queue_changes`."""
        name = check_own_name("queue", queue)
        return await self._database.aread(lambda _: queue_settings.changes(name))

    def _with_declared(self, act: Callable[[Moment], Op[Any]]) -> Operation[Any]:
        """What the code declares goes first, in the same transaction."""
        registry = self._registry

        def run(moment: Moment) -> Op[Any]:
            yield from queue_settings.declare_all(moment, registry.undeclared)
            return (yield from act(moment))

        return run


def _actor(actor: str | None) -> str:
    """Whoever changes something, for the log."""
    if actor is not None:
        return clip(actor, NAME_CHARS_MAX)
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # no name for this user id
        user = str(os.getuid())
    return clip(f"{user}@{socket.gethostname()}", NAME_CHARS_MAX)
