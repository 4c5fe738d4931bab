"""The token that opens the page while there is no API key: for the user who runs the server, on the machine that it runs on.

Where a request comes from does not tell whose it is: a proxy on this machine sends the requests of everybody, and every user of
the machine can connect to it. A file tells: only its owner can read it. One is kept for each database, so that all processes that
serve it, and `holdfast token`, have the same.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.app import Holdfast
from holdfast.domain.access import SECRET_BYTES
from holdfast.errors import SettingError
from holdfast.store.feed import feed_end

PREFIX: Final = "hft_"
CHARS_MAX: Final = 200
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAKE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def token_of(app: Holdfast) -> str:
    """The token of this app's database, made if there is none."""
    return kept(app.store.read(lambda _: feed_end()).mark)


def new_token() -> str:
    return PREFIX + secrets.token_urlsafe(SECRET_BYTES)


def kept(mark: str) -> str:
    """The token of the database with this mark, from its file. `SettingError`: somebody else may read or write it."""
    folder = _folder()
    path = folder / f"{mark}.token"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check(folder, os.stat(folder, follow_symlinks=False), stat.S_ISDIR, 0o022)
        with suppress(FileNotFoundError):
            return _read(path)
        _make(path)
        return _read(path)
    except OSError as error:
        raise SettingError(f"the token cannot be kept at {path}: {error.strerror}; make an API key: holdfast keys add") from None


def _folder() -> Path:
    """Not in a temporary directory, which other users write to as well."""
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path(os.path.expanduser("~")) / ".local" / "state"
    if not base.is_absolute():
        raise SettingError("the token cannot be kept: HOME is not set; make an API key: holdfast keys add")
    return base / "holdfast"


def _read(path: Path) -> str:
    descriptor = os.open(path, _READ)
    try:
        _check(path, os.fstat(descriptor), stat.S_ISREG, 0o077)
        return os.read(descriptor, CHARS_MAX).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)


def _make(path: Path) -> None:
    """Under its name only when it is whole: of processes that come at the same time, one makes it and the others read it."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, _MAKE, 0o600)
    try:
        os.write(descriptor, new_token().encode())
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        os.close(descriptor)
        os.unlink(draft)


def _check(path: Path, found: os.stat_result, is_kind: Callable[[int], bool], others: int) -> None:
    if not is_kind(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & others:
        mode = stat.S_IMODE(found.st_mode)
        raise SettingError(f"{path} (owner {found.st_uid}, mode {mode:03o}) is not this user's alone; remove it, then try again")
