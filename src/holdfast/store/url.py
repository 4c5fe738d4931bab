"""A database's URL as people may see it."""

from __future__ import annotations

from typing import Final

_SECRETS: Final = ("password=", "sslpassword=", "passfile=")


def masked(url: str) -> str:
    """Without its user and password."""
    scheme, _, rest = url.partition("://")
    base, _, query = rest.partition("?")
    if not ("@" in base or any(secret in query for secret in _SECRETS)):
        return url
    kept = "&".join(part for part in query.split("&") if not part.startswith(_SECRETS))
    base = f"…@{base.rpartition('@')[2]}" if "@" in base else base
    return f"{scheme}://{base}{'?' if kept else ''}{kept}"
