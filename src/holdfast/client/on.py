"""A database that is the caller's own connection: the whole client API inside the caller's transaction."""

from __future__ import annotations

from typing import Any, TypeVar

from holdfast.errors import SettingError
from holdfast.store.caller import AsyncCallerTransaction, CallerTransaction
from holdfast.store.op import Moment, Operation
from holdfast.store.store import Store

T = TypeVar("T")


class CallerDatabase:
    """Runs operations through a connection or session that the caller begins, commits and closes."""

    def __init__(self, connection: Any, store: Store) -> None:
        self._connection = store.caller(connection)
        self._clock = store.clock

    def write(self, operation: Operation[T]) -> T:
        return self._sync().write(operation, self._moment())

    async def awrite(self, operation: Operation[T]) -> T:
        return await self._async().write(operation, self._moment())

    def read(self, operation: Operation[T]) -> T:
        return self._sync().read(operation, self._moment())

    async def aread(self, operation: Operation[T]) -> T:
        return await self._async().read(operation, self._moment())

    def _sync(self) -> CallerTransaction:
        if isinstance(self._connection, CallerTransaction):
            return self._connection
        raise SettingError("on= is an async connection; use the method with an 'a' in front, and await it")

    def _async(self) -> AsyncCallerTransaction:
        if isinstance(self._connection, AsyncCallerTransaction):
            return self._connection
        raise SettingError("on= is a sync connection; use the method without an 'a' in front")

    def _moment(self) -> Moment:
        return Moment(self._clock.now(), self._clock.tick(), self._clock.boot())
