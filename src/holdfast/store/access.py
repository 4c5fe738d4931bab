"""API keys, and what they are exchanged for: sessions and tickets. Secrets come in and go out; only their digests are kept."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from holdfast.domain.access import PREFIX_BYTES, SECRET_BYTES, ApiKey, NewApiKey, Scope, digest_of, key_text
from holdfast.domain.bounds import API_KEYS_MAX, PASSES_DROPPED_MAX
from holdfast.domain.job import moment_of
from holdfast.errors import SettingError
from holdfast.store.op import Moment, Op, Row, Statement

REMEMBERED_MICROS: Final = 90 * 86_400 * 1_000_000
"""How long a key is listed that cannot be used any more."""


class Stored(NamedTuple):
    key: ApiKey
    digest: str


class Pass(NamedTuple):
    """Valid until `expires_at`, with the rights of the key; without a key, where no key is required."""

    prefix: str | None
    job: str | None
    expires_at: int


def keys() -> Op[list[ApiKey]]:
    """All of them, the oldest first."""
    return [_stored(row).key for row in (yield Statement("api_keys"))]


def key(prefix: str) -> Op[Stored | None]:
    rows = yield Statement("api_key", {"prefix": prefix})
    return _stored(rows[0]) if rows else None


def any_key() -> Op[bool]:
    """Whether a key was ever made."""
    return bool((yield Statement("api_key_exists")))


def add_key(
    moment: Moment, name: str, scope: Scope, queues: tuple[str, ...] | None = None, expires_at: int | None = None
) -> Op[NewApiKey]:
    yield Statement("forget_api_keys", {"before": moment.now - REMEMBERED_MICROS})
    if len((yield Statement("api_keys"))) >= API_KEYS_MAX:
        raise SettingError(f"there are {API_KEYS_MAX} API keys, which is the most; revoke some and give it time, or share one")
    prefix, secret = secrets.token_hex(PREFIX_BYTES), secrets.token_urlsafe(SECRET_BYTES)
    row = {
        "prefix": prefix,
        "name": name,
        "digest": digest_of(secret),
        "scope": str(scope),
        "queues": None if queues is None else msgspec.json.encode(queues).decode(),
        "now": moment.now,
        "expires_at": expires_at,
    }
    yield Statement("add_api_key", row)
    return NewApiKey(
        prefix=prefix,
        name=name,
        scope=scope,
        queues=queues,
        created_at=moment_of(moment.now),
        expires_at=None if expires_at is None else moment_of(expires_at),
        text=key_text(prefix, secret),
    )


def revoke_key(moment: Moment, prefix: str) -> Op[ApiKey]:
    """From now on the key is refused, and so are its sessions and tickets. To revoke it again changes nothing."""
    yield Statement("revoke_api_key", {"now": moment.now, "prefix": prefix})
    yield Statement("drop_passes", {"prefix": prefix})
    found = yield from key(prefix)
    if found is None:
        raise SettingError(f"there is no API key {prefix!r}; `holdfast keys list` shows all of them")
    return found.key


def note_uses(uses: Mapping[str, int]) -> Op[None]:
    """When keys were last used, by prefix."""
    yield Statement("use_api_keys", {"used": msgspec.json.encode(dict(uses)).decode()})


def give_pass(moment: Moment, kind: str, seconds: float, prefix: str | None, job: str | None = None) -> Op[str]:
    """A secret that stands for the key's holder for so many seconds."""
    yield Statement("drop_expired_passes", {"now": moment.now, "limit": PASSES_DROPPED_MAX})
    secret = secrets.token_urlsafe(SECRET_BYTES)
    row = {
        "digest": digest_of(secret),
        "kind": kind,
        "prefix": prefix,
        "job": job,
        "expires_at": moment.now + int(seconds * 1e6),
    }
    yield Statement("add_pass", row)
    return secret


def find_pass(moment: Moment, kind: str, secret: str) -> Op[Pass | None]:
    """What the secret is a pass for, if its time is not over."""
    return _current(moment, (yield Statement("pass", {"digest": digest_of(secret), "kind": kind})))


def take_pass(moment: Moment, kind: str, secret: str) -> Op[Pass | None]:
    """The same, for the last time."""
    return _current(moment, (yield Statement("take_pass", {"digest": digest_of(secret), "kind": kind})))


def _current(moment: Moment, rows: list[Row]) -> Pass | None:
    found = Pass(*rows[0]) if rows else None
    return found if found is not None and moment.now < found.expires_at else None


def _stored(row: Row) -> Stored:
    prefix, name, digest, scope, queues, created_at, expires_at, last_used_at, revoked_at = row
    known = ApiKey(
        prefix=prefix,
        name=name,
        scope=Scope(scope),
        queues=None if queues is None else msgspec.json.decode(queues, type=tuple[str, ...]),
        created_at=moment_of(created_at),
        expires_at=None if expires_at is None else moment_of(expires_at),
        last_used_at=None if last_used_at is None else moment_of(last_used_at),
        revoked_at=None if revoked_at is None else moment_of(revoked_at),
    )
    return Stored(known, digest)
