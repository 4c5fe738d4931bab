"""An operation inside the caller's own transaction on a SQLite file: the write lock first, then a savepoint's worth of work."""

from __future__ import annotations

import os
import sqlite3
from typing import TypeVar

from holdfast.errors import SettingError, StoreUnavailable
from holdfast.store.caller import MIGRATE, AsyncCallerTransaction, CallerTransaction
from holdfast.store.migrate import pending
from holdfast.store.op import Moment, Op, Operation, Statement
from holdfast.store.sqlite.errors import explain
from holdfast.store.sqlite.libraries import STATE, FileLink, link_to
from holdfast.store.sqlite.schema import PACKAGE

T = TypeVar("T")


def caller_transaction(on: object, store_path: str | None = None) -> CallerTransaction | AsyncCallerTransaction:
    """Runs operations on a caller's connection or session, whatever library it comes from. Nothing is opened yet."""
    link, rules = link_to(on), SqliteRules(store_path)
    return CallerTransaction(link, rules) if isinstance(link, FileLink) else AsyncCallerTransaction(link, rules)


class SqliteRules:
    def __init__(self, store_path: str | None) -> None:
        self._store_path = store_path

    def writing(self, operation: Operation[T], moment: Moment) -> Op[T]:
        """An operation in the caller's transaction, which is begun if the library has not done so yet."""
        (state,) = yield STATE
        begun = not state[0]
        if begun:
            _check_manual(*state)
            yield Statement("begin")
        yield Statement("mark")
        try:
            # A transaction that only reads so far must get the write lock before it reads for us: what it read may be old.
            yield Statement("lock")
            yield from _check_database(self._store_path)
            value = yield from operation(moment)
            yield Statement("keep")
            return value
        except BaseException:
            yield from _undo(begun)
            raise

    def reading(self, operation: Operation[T], moment: Moment) -> Op[T]:
        yield from _check_database(self._store_path)
        return (yield from operation(moment))

    def translated(self, error: Exception) -> Exception:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, sqlite3.Error):
            cause = getattr(cause, "orig", None) or cause.__cause__
        if cause is None:
            return error
        if "no such table: holdfast_" in str(cause):
            return StoreUnavailable(f"the database of on= has no Holdfast tables; {MIGRATE}")
        if "closed database" in str(cause):
            return SettingError("on= is a connection that is closed; pass one that is open")
        if "created in a thread" in str(cause):
            return SettingError("on= is a connection of another thread; open one in this thread, or with check_same_thread=False")
        return explain(cause, "the database of on=")


def _undo(begun: bool) -> Op[None]:
    """Back to where the caller was; a transaction that SQLite has given up by itself cannot be gone back in."""
    try:
        (state,) = yield STATE
        if state[0] and begun:
            yield Statement("undo")
        elif state[0]:
            yield Statement("back")
            yield Statement("keep")
    except Exception:
        return  # the connection is beyond use, and what made it so is the error that the caller must see


def _check_manual(_: bool, autocommit: bool) -> None:
    if autocommit:
        raise SettingError(
            "on= is a connection in autocommit mode with no transaction; execute BEGIN IMMEDIATE first, or leave on= out"
        )


def _check_database(store_path: str | None) -> Op[None]:
    """That the caller's database is the app's, and of this version."""
    ((version, file),) = yield Statement("identity")
    if store_path is not None and not _same(file, store_path):
        raise SettingError(
            f"on= is a connection to {file or 'memory only'}, but this app's jobs are in {store_path}; use one database for both"
        )
    if pending(PACKAGE, version or 0, "the database of on="):
        raise StoreUnavailable(f"the database of on= is at schema version {version or 0}; {MIGRATE}")


def _same(file: str, store_path: str) -> bool:
    try:
        return os.path.samefile(file, store_path)
    except OSError:
        return False
