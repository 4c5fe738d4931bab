"""Who may ask what: scopes, and API keys as they are written and kept.

A key is `hf_<prefix>_<secret>`. The prefix is public and finds the row; of the secret, 256 random bits, only a SHA-256 is kept:
there is nothing in it to guess, so a slow hash would protect nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from holdfast.domain.bounds import KEY_QUEUES_MAX, NAME_CHARS_MAX
from holdfast.domain.event import check_name
from holdfast.domain.secret import REDACTED
from holdfast.domain.text import show
from holdfast.errors import SettingError

PREFIX_BYTES: Final = 6
SECRET_BYTES: Final = 32
_KEY: Final = re.compile(rf"hf_([0-9a-f]{{{2 * PREFIX_BYTES}}})_([A-Za-z0-9_-]{{43}})")
_SECRETS: Final = re.compile(r"(hf_[0-9a-f]+_|hft_|[?&](?:ticket|token)=|\bholdfast_session=)[^\s&;,'\"]+")
_PREFIX: Final = re.compile(rf"(?:hf_)?([0-9a-f]{{{2 * PREFIX_BYTES}}})(?:_.*)?")


class Scope(StrEnum):
    """What a key may do; each includes the former."""

    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"

    def includes(self, other: Scope) -> bool:
        return _ORDER[self] >= _ORDER[other]


_ORDER: Final = {scope: place for place, scope in enumerate(Scope)}


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a key: everything but its secret."""

    prefix: str
    name: str
    scope: Scope
    queues: tuple[str, ...] | None = None
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None

    def usable(self, now: datetime) -> bool:
        """Whether it lets its holder in at that time: it was not revoked, and has not expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class NewApiKey(ApiKey, frozen=True, kw_only=True):
    """A key that was just made: the only time that its text is known."""

    text: str

    def __repr__(self) -> str:
        return f"<NewApiKey {self.prefix} {self.name} {self.scope}>"


def key_text(prefix: str, secret: str) -> str:
    return f"hf_{prefix}_{secret}"


def parts_of(text: str) -> tuple[str, str] | None:
    """Prefix and secret, or None if that is no key of ours."""
    found = _KEY.fullmatch(text)
    return None if found is None else (found[1], found[2])


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def fits(secret: str, digest: str) -> bool:
    """Whether the digest is that of the secret, in a time that does not depend on where they differ."""
    return hmac.compare_digest(digest_of(secret), digest)


def check_prefix(text: str) -> str:
    """A key's prefix, also out of the whole key."""
    found = _PREFIX.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise SettingError(
            f"{show(text[:20]) if isinstance(text, str) else show(text)} is not the prefix of an API key; "
            f"it has {2 * PREFIX_BYTES} hex digits: see `holdfast keys list`"
        )
    return found[1]


def check_scope(scope: Scope | str) -> Scope:
    try:
        return Scope(scope)
    except ValueError:
        raise SettingError(f"scope {show(scope)} is unknown; use one of {', '.join(Scope)}") from None


def check_key_name(name: str) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > NAME_CHARS_MAX or not name.isprintable():
        raise SettingError(f"API key name {show(name)} cannot be used: 1 to {NAME_CHARS_MAX} printable characters")
    return name.strip()


def check_queues(queues: Iterable[str] | None) -> tuple[str, ...] | None:
    """The queues that a key is for, or None for all. None of them would be a key for nothing."""
    if queues is None:
        return None
    names = tuple(sorted({check_name("queue", queue) for queue in ([queues] if isinstance(queues, str) else queues)}))
    if not 1 <= len(names) <= KEY_QUEUES_MAX:
        raise SettingError(f"an API key is for 1 to {KEY_QUEUES_MAX} queues, not {len(names)}; leave queues out for all of them")
    return names


def without_keys(text: str) -> str:
    """A line of a log without API keys, tokens, tickets and sessions; a key's prefix stays, to know which it was."""
    return _SECRETS.sub(rf"\1{REDACTED}", text)
