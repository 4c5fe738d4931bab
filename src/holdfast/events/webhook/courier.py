"""The courier: says whether a callback may be asked for, and delivers one message, as a task of every app.

A try that failed is tried again by the schedule of `settings`. The last of them, and a receiver that is gone for good, end it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, Protocol

import msgspec

from holdfast.domain.callback import CALLBACK_DELAYS, place_of
from holdfast.domain.delivery import ATTEMPTED
from holdfast.domain.outcome import Fatal, RetryAfter, Snooze
from holdfast.domain.retry import Retry
from holdfast.domain.sanitize import one_line
from holdfast.errors import SettingError
from holdfast.events.webhook.address import Allowed, judge
from holdfast.events.webhook.endpoints import Endpoints, Resting
from holdfast.events.webhook.resolve import RESOLVE_SECONDS, Resolver, Unresolved, system_resolver, within
from holdfast.events.webhook.send import LIMITS, Answer, Limits, NotSent, post
from holdfast.events.webhook.settings import WebhookSettings, allowed_now, settings_of
from holdfast.events.webhook.signature import SECRET_VARIABLE, headers_of, secrets_of

log = logging.getLogger("holdfast.webhook")

CHECKED_SECONDS: Final = 60.0
"""How long a URL that was found good is not looked up again, when it is asked for. It is at every delivery."""
TIMEOUT_SECONDS: Final = 60.0
RETRY_AFTER_SECONDS_MAX: Final = 86_400.0
_GONE: Final = 410
_BUSY: Final = frozenset({429, 502, 503, 504})
_CHECKED_MAX: Final = 1_000
_FAULTS: Final = (SettingError, Unresolved, NotSent, Resting)
_chance: Final = random.SystemRandom()  # the program may have seeded the common one for itself


class Teller(Protocol):
    """As much of a task's context as is needed here."""

    @property
    def attempt(self) -> int: ...
    def emit(self, kind: str, data: Any = None) -> None: ...


class Courier:
    def __init__(self, secret: str | None = None) -> None:
        """`secret` is the one that the code gives; None: that of the environment, at each delivery."""
        self._secrets = None if secret is None else secrets_of(secret, "webhook_secret")
        self.resolve: Resolver = within(RESOLVE_SECONDS, system_resolver)
        self.limits: Limits = LIMITS
        self._endpoints = Endpoints()
        self._checked: dict[tuple[str, tuple[Allowed, ...]], float] = {}

    # When a job is enqueued

    def check(self, url: str) -> None:
        """`CallbackRefused` if it may not be called. A name that has no address now may have one later: it is judged then."""
        allowed = allowed_now()
        if self._is_checked(url, allowed):
            return
        try:
            judge(url, allowed, self.resolve)
        except Unresolved as error:
            log.info("a callback was accepted without a look at its address: %s", one_line(str(error)))
            return
        if len(self._checked) >= _CHECKED_MAX:
            self._checked.clear()
        self._checked[url, allowed] = time.monotonic() + CHECKED_SECONDS

    async def acheck(self, url: str) -> None:
        """The same without blocking the event loop."""
        if not self._is_checked(url, allowed_now()):
            await asyncio.to_thread(self.check, url)

    def _is_checked(self, url: str, allowed: tuple[Allowed, ...]) -> bool:
        return self._checked.get((url, allowed), 0.0) > time.monotonic()

    # The task

    def deliver(self, ctx: Teller, job: str, url: str, message: str, event: dict[str, Any]) -> dict[str, Any]:
        """One try. What it found goes into the log, also if it failed."""
        began, answer, retry = time.monotonic(), None, _DEFAULT_RETRY
        try:
            settings = settings_of()
            if self._secrets is not None:
                settings = settings._replace(secrets=self._secrets)
            retry = settings.retry
            answer = self._call(settings, url, message, event, last=ctx.attempt >= retry.attempts)
            fault = None if 200 <= answer.status < 300 else f"{place_of(url).authority} answered {answer.status}"
        except _FAULTS as error:
            fault = str(error)
        told = {"status": answer and answer.status, "error": fault, "seconds": round(time.monotonic() - began, 3)}
        ctx.emit(ATTEMPTED, {"attempt": ctx.attempt, **told})
        if fault is None:
            return told
        raise _again(fault, answer, ctx.attempt, retry)

    def _call(self, settings: WebhookSettings, url: str, message: str, event: dict[str, Any], *, last: bool) -> Answer:
        if not settings.secrets:
            raise SettingError(
                f"${SECRET_VARIABLE} is not set where this worker runs, and a callback must be signed; set it there"
            )
        name = place_of(url).authority
        wait = self._endpoints.enter(name, urgent=last)
        if wait:
            raise Snooze(wait, f"enough others are calling {name}")
        began, answered = time.monotonic(), True
        try:
            return self._post(settings, url, message, event)
        except (NotSent, Unresolved):
            answered = False
            raise
        finally:
            self._endpoints.leave(name, time.monotonic() - began, answered)

    def _post(self, settings: WebhookSettings, url: str, message: str, event: dict[str, Any]) -> Answer:
        target = judge(url, settings.allowed, self.resolve)
        body = msgspec.json.encode(event)
        signed = headers_of(settings.secrets, message, int(time.time()), body)
        answer = post(target, {"content-type": "application/json", "user-agent": "holdfast", **signed}, body, self.limits)
        # Of what it said only the operator is told: for others it could be a window into a network that is not theirs.
        what = f": {answer.prefix}" if answer.prefix else ""
        log.info("callback %s: %s answered %d%s", message, target.place.authority, answer.status, what)
        return answer


_DEFAULT_RETRY: Final = Retry(delays=CALLBACK_DELAYS)


def _again(fault: str, answer: Answer | None, attempt: int, retry: Retry) -> RetryAfter | Fatal:
    if answer is not None and answer.status == _GONE:
        return Fatal(f"{fault}: gone for good")
    if attempt >= retry.attempts:
        return Fatal(f"{fault}; that was the last of {retry.attempts} tries")
    delay = retry.delay_seconds(attempt, _chance.random())
    if answer is not None and answer.status in _BUSY:
        delay = max(delay, min(_seconds(answer.retry_after), RETRY_AFTER_SECONDS_MAX))
    return RetryAfter(delay, fault)


def _seconds(retry_after: str | None) -> float:
    """Both forms of the header: so many seconds, or a date."""
    text = (retry_after or "").strip()[:64]
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
        return max(0.0, (moment.astimezone(UTC) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return 0.0
