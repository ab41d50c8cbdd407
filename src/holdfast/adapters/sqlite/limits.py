"""The limits of a SQLite store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import TypeVar

import apsw

from holdfast.adapters.limits.places import move_places, promote, tend
from holdfast.adapters.limits.sql_desk import SqlDesk
from holdfast.adapters.sqlite.access import Access
from holdfast.adapters.sqlite.connections import fetch
from holdfast.adapters.sqlite.limit_statements import STATEMENTS
from holdfast.adapters.sqlite.transaction import Transaction
from holdfast.core.turn import micros
from holdfast.ports.limits import BusyLine, Line, PlaceAnswer, PlaceMove, PlaceView, StoredLimit

T = TypeVar("T")


class Limiting(Access):
    """The part of a SQLite store that keeps limits."""

    async def limit(self, name: str) -> StoredLimit | None:
        """See `ports.limits`."""
        return self._read(lambda connection: self._desk(connection).limit(name))

    async def limits(self, *, after: str = "", limit: int = 100) -> Sequence[StoredLimit]:
        """See `ports.limits`."""
        return self._read(lambda connection: self._desk(connection).limits(after, limit))

    async def put_limit(self, limit: StoredLimit) -> bool:
        """See `ports.limits`."""
        return await self._write(partial(_put_limit, limit=limit))

    async def move_places(self, move: PlaceMove) -> PlaceAnswer:
        """See `ports.limits`."""
        return await self._write(partial(_move, move=move))

    async def tend_limits(self, *, limit: int = 100) -> bool:
        """See `ports.limits`. Only reads while nothing waits."""
        if not self._read(lambda connection: self._desk(connection).waited_lines(1)):
            return False
        return await self._write(partial(_tend, most=limit))

    async def lines(self, name: str, *, after: str | None = None, limit: int = 100) -> Sequence[Line]:
        """See `ports.limits`."""
        return self._read(lambda connection: self._desk(connection).listed_lines(name, after, limit))

    async def busiest(self, name: str, *, limit: int = 20, places: int = 10) -> Sequence[BusyLine]:
        """See `ports.limits`."""
        return self._read(lambda connection: self._desk(connection).busiest(name, limit, places))

    async def places_of(self, run: str) -> Sequence[PlaceView]:
        """See `ports.limits`."""
        return self._read(lambda connection: self._desk(connection).places_of(run))

    def _desk(self, connection: apsw.Connection) -> SqlDesk:
        return SqlDesk(partial(fetch, connection), STATEMENTS, micros(self._clock.now()), as_list=_as_json)


def _as_json(values: Sequence[object]) -> str:
    return json.dumps(values)


def _writing(transaction: Transaction) -> SqlDesk:
    return SqlDesk(transaction.rows, STATEMENTS, transaction.now, as_list=_as_json)


def _told(transaction: Transaction, desk: SqlDesk, answer: T) -> T:
    for run in desk.hints:
        transaction.hint(run)
    return answer


def _move(transaction: Transaction, move: PlaceMove) -> PlaceAnswer:
    desk = _writing(transaction)
    return _told(transaction, desk, move_places(desk, [move])[0])


def _tend(transaction: Transaction, most: int) -> bool:
    desk = _writing(transaction)
    return _told(transaction, desk, tend(desk, most))


def _put_limit(transaction: Transaction, limit: StoredLimit) -> bool:
    desk = _writing(transaction)
    if not desk.put_limit(limit):
        return False
    for name, key in desk.lines_of_limit(limit.name):
        promote(desk, name, key)
    return _told(transaction, desk, True)
