"""Signing as Standard Webhooks 1.0.0 says: HMAC-SHA256 over `id.timestamp.body`, with every secret that is in use."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

from holdfast.errors import SettingError

SECRET_VARIABLE: Final = "HOLDFAST_WEBHOOK_SECRET"  # noqa: S105 (its name, not a secret)
_PREFIX: Final = "whsec_"
_BYTES_MIN, _BYTES_MAX = 24, 64


def secrets_of(text: str, source: str = f"${SECRET_VARIABLE}") -> tuple[bytes, ...]:
    """`whsec_…`, or several with spaces between: a new one beside the old while receivers change over."""
    return tuple(_secret(each, number, source) for number, each in enumerate(text.split(), 1))


def headers_of(secrets: Sequence[bytes], message: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The three headers by which a receiver checks the sender, that the message is whole, and whether it is a repetition."""
    signed = b"%s.%d.%s" % (message.encode(), timestamp, body)
    signatures = [base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode() for secret in secrets]
    return {
        "webhook-id": message,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


def _secret(text: str, number: int, source: str) -> bytes:
    """Nothing of it is shown, whatever is wrong with it."""
    rest = text.removeprefix(_PREFIX)
    if rest == text:
        raise SettingError(f"{source}: secret {number} does not begin with {_PREFIX}; {_REMEDY}")
    try:
        secret = base64.b64decode(rest + "=" * (-len(rest) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise SettingError(f"{source}: secret {number} is not base64 after {_PREFIX}; {_REMEDY}") from None
    if not _BYTES_MIN <= len(secret) <= _BYTES_MAX:
        raise SettingError(f"{source}: secret {number} has {len(secret)} bytes, not {_BYTES_MIN} to {_BYTES_MAX}; {_REMEDY}")
    return secret


_REMEDY: Final = "make one with: echo whsec_$(openssl rand -base64 32)"
