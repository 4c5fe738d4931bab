"""A database's URL as people may see it."""

from __future__ import annotations

import re
from typing import Final

from holdfast.errors import SettingError

_HALF_ESCAPED: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
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


def check_escaped(url: str) -> None:
    """A password that is not written as a URL wants it would be taken for something else, and shown."""
    rest = url.partition("://")[2]
    place = re.split("[/?]", rest)[0]
    user = place.rpartition("@")[0]
    astray = "@" in user or ("@" not in place and "@" in rest.partition("=")[0])
    if astray or _HALF_ESCAPED.search(user):
        raise SettingError("database URL: user or password has a character that is to be written as %XX: %40 for @, %2F for /")
