"""The door to a database that is the caller's own connection."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from holdfast.errors import SettingError
from holdfast.store.adapters import AsyncBorrowed, Borrowed
from holdfast.store.op import Make, Moment
from holdfast.store.store import Store

T = TypeVar("T")


class On:
    """Runs operations through a connection or session that somebody else begins, commits and closes."""

    abreast: Final = False

    def __init__(self, connection: Any, store: Store) -> None:
        self._connection = store.borrow(connection)
        self._clock = store.clock

    @property
    def lanes(self) -> dict[tuple[str, str], int]:
        return {}  # whether a lane that was made here stays is for the caller's commit to say

    def write(self, make: Make[T]) -> T:
        return self._sync().write(make, self._moment())

    async def awrite(self, make: Make[T]) -> T:
        return await self._async().write(make, self._moment())

    def read(self, make: Make[T]) -> T:
        return self._sync().read(make, self._moment())

    async def aread(self, make: Make[T]) -> T:
        return await self._async().read(make, self._moment())

    def _sync(self) -> Borrowed:
        if isinstance(self._connection, Borrowed):
            return self._connection
        raise SettingError("on= is an async connection; use the method with an 'a' in front, and await it")

    def _async(self) -> AsyncBorrowed:
        if isinstance(self._connection, AsyncBorrowed):
            return self._connection
        raise SettingError("on= is a sync connection; use the method without an 'a' in front")

    def _moment(self) -> Moment:
        return Moment(self._clock.now(), self._clock.tick(), self._clock.boot())
