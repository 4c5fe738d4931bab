"""What an error of SQLite's means to a person: what happened, to which file, and the remedy, in one line."""

from __future__ import annotations

import sqlite3
from typing import Final

from holdfast.errors import StoreUnavailable
from holdfast.store.op import Refused

# The longest name that starts the error's name wins.
_MEANINGS: Final[dict[str, tuple[str, str]]] = {
    "SQLITE_FULL": ("cannot grow: the disk is full", "free some space; nothing of this write was kept"),
    "SQLITE_READONLY": ("cannot be written", "change the owner or mode of the file and its directory"),
    "SQLITE_READONLY_DBMOVED": ("was moved or deleted while in use", "put it back, or restart this process"),
    "SQLITE_READONLY_DIRECTORY": ("is in a directory that cannot be written", "change its owner or its mode"),
    "SQLITE_CANTOPEN": ("cannot be opened", "check that its directory exists and may be written"),
    "SQLITE_NOTADB": ("is not an SQLite database", "give another path; the file was not touched"),
    "SQLITE_CORRUPT": ("is damaged", "stop all workers, run PRAGMA integrity_check, and restore a backup"),
    "SQLITE_BUSY": ("is locked by another process", "try again; look for a transaction that is left open"),
    "SQLITE_BUSY_SNAPSHOT": ("changed since this transaction read it", "begin with BEGIN IMMEDIATE"),
    "SQLITE_LOCKED": ("is locked inside this process", "try again; do not use a shared cache"),
    "SQLITE_IOERR": ("cannot be read or written", "check the disk, its quota and the system's log"),
    "SQLITE_IOERR_NOMEM": ("needs more memory than there is", "give this process more memory"),
    "SQLITE_NOMEM": ("needs more memory than there is", "give this process more memory"),
    "SQLITE_PERM": ("may not be accessed", "change the owner or mode of the file and its directory"),
    "SQLITE_AUTH": ("may not be accessed", "change the authorizer of this connection"),
    "SQLITE_PROTOCOL": ("is contended by too many processes", "try again, with fewer of them"),
    "SQLITE_NOLFS": ("is too large for this file system", "move it to another disk, or prune finished jobs"),
    "SQLITE_TOOBIG": ("was sent a value that is too large", "send less, and keep large data in files"),
    "SQLITE_SCHEMA": ("was changed by another process", "try again"),
    "SQLITE_INTERRUPT": ("was interrupted", "try again"),
}
_REFUSALS: Final = ("SQLITE_ERROR", "SQLITE_CONSTRAINT", "SQLITE_TOOBIG", "SQLITE_MISMATCH", "SQLITE_RANGE", "SQLITE_MISUSE")
"""What is wrong with a statement or its values, not with the file. (An error without a name is Python's, about a value.)"""
_UNKNOWN: Final = ("cannot be used", "run PRAGMA integrity_check on it, and check the disk")


def explain(error: sqlite3.Error, path: str) -> StoreUnavailable:
    """The same error for a person: what, which file, and the remedy, in one line."""
    name: str = getattr(error, "sqlite_errorname", None) or ""
    known = max((key for key in _MEANINGS if name == key or name.startswith(f"{key}_")), key=len, default="")
    what, remedy = _MEANINGS.get(known, _UNKNOWN)
    said = " ".join(str(error).split()) or type(error).__name__
    kind = Refused if name.startswith(_REFUSALS) or not name else StoreUnavailable
    return kind(f"{path} {what} ({name or type(error).__name__}: {said}); {remedy}")
