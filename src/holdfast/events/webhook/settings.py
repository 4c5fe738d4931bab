"""How callbacks are delivered, as the environment says: secrets, addresses that may be called, and the delays between tries."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from holdfast.domain.callback import DELAYS_VARIABLE, delays_of
from holdfast.domain.retry import Retry
from holdfast.events.webhook.address import ALLOW_VARIABLE, Allowed, allowed_of
from holdfast.events.webhook.signature import SECRET_VARIABLE, secrets_of

JITTER: Final = 0.1


class WebhookSettings(NamedTuple):
    secrets: tuple[bytes, ...]
    allowed: tuple[Allowed, ...]
    retry: Retry


def settings_of(environment: Mapping[str, str] | None = None) -> WebhookSettings:
    """Read anew each time, so that a mistake can be put right while messages wait; worked out once."""
    given = os.environ if environment is None else environment
    return _settings(given.get(SECRET_VARIABLE, ""), given.get(ALLOW_VARIABLE, ""), given.get(DELAYS_VARIABLE, ""))


def allowed_now() -> tuple[Allowed, ...]:
    """All that is needed of it where jobs are enqueued: there need be no secret there."""
    return _allowed(os.environ.get(ALLOW_VARIABLE, ""))


@lru_cache(maxsize=8)
def _settings(secrets: str, allow: str, delays: str) -> WebhookSettings:
    return WebhookSettings(secrets_of(secrets), _allowed(allow), Retry(delays=delays_of(delays), jitter=JITTER))


@lru_cache(maxsize=8)
def _allowed(text: str) -> tuple[Allowed, ...]:
    return allowed_of(text)
