"""The limits of a PostgreSQL store: each verb is a transaction of its own, on a lent connection. Moves of places have a
lane: what comes while one transaction is under way shares the next, since all of them want the same few lines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from holdfast.adapters.limits.places import move_places, promote, tend
from holdfast.adapters.limits.sql_desk import SqlDesk
from holdfast.adapters.postgres.access import Access
from holdfast.adapters.postgres.clock import Moments
from holdfast.adapters.postgres.lane import Lane
from holdfast.adapters.postgres.limit_statements import NOW, STATEMENTS
from holdfast.adapters.postgres.link import Link
from holdfast.adapters.postgres.problems import is_of_one
from holdfast.adapters.sql.batches import settle
from holdfast.ports.limits import BusyLine, Line, PlaceAnswer, PlaceMove, PlaceView, StoredLimit

T = TypeVar("T")


class Moves:
    """The work of the lane of places: each piece is one move."""

    def __init__(self, link: Link, moments: Moments, tell: Callable[[Iterable[str]], None]) -> None:
        self._link = link
        self._moments = moments
        self._tell = tell

    def perform(self, moves: Sequence[PlaceMove]) -> Sequence[PlaceAnswer | Exception]:
        """The answer to each move, or its error. All share one transaction; if one spoils it, each has its own."""
        return settle(moves, self._moved, is_of_one)

    def _moved(self, moves: Sequence[PlaceMove]) -> Sequence[PlaceAnswer]:
        answers, hints = at_desk(self._link, self._moments.wall(), lambda desk: move_places(desk, moves))
        self._tell(hints)
        return answers


def at_desk(link: Link, given: int | None, work: Callable[[SqlDesk], T]) -> tuple[T, list[str]]:
    """Does the work in a transaction: the answer, and the runs of which listeners are to hear."""

    def transact(ask: Callable[[str, Sequence[Any]], list[Any]]) -> tuple[T, list[str]]:
        desk = SqlDesk(ask, STATEMENTS, ask(NOW, (given,))[0][0])
        return work(desk), list(desk.hints)

    return link.transact(transact)


class Limiting(Access, ABC):
    """The part of a PostgreSQL store that keeps limits."""

    @abstractmethod
    def _lane_of_places(self) -> Lane[PlaceMove]: ...

    async def limit(self, name: str) -> StoredLimit | None:
        """See `ports.limits`."""
        return await self._at_desk(lambda desk: desk.limit(name))

    async def limits(self, *, after: str = "", limit: int = 100) -> Sequence[StoredLimit]:
        """See `ports.limits`."""
        return await self._at_desk(lambda desk: desk.limits(after, limit))

    async def put_limit(self, limit: StoredLimit) -> bool:
        """See `ports.limits`."""

        def put(desk: SqlDesk) -> bool:
            lines = sorted(desk.lines_of_limit(limit.name))
            desk.lock(lines)
            if not desk.put_limit(limit):
                return False
            for name, key in lines:
                promote(desk, name, key)
            return True

        return await self._at_desk(put)

    async def move_places(self, move: PlaceMove) -> PlaceAnswer:
        """See `ports.limits`."""
        answer: PlaceAnswer = await self._lane_of_places().ask(move)
        return answer

    async def tend_limits(self, *, limit: int = 100) -> bool:
        """See `ports.limits`. Only reads while nothing waits."""
        return await self._at_desk(lambda desk: tend(desk, limit))

    async def lines(self, name: str, *, after: str | None = None, limit: int = 100) -> Sequence[Line]:
        """See `ports.limits`."""
        return await self._at_desk(lambda desk: desk.listed_lines(name, after, limit))

    async def busiest(self, name: str, *, limit: int = 20, places: int = 10) -> Sequence[BusyLine]:
        """See `ports.limits`."""
        return await self._at_desk(lambda desk: desk.busiest(name, limit, places))

    async def places_of(self, run: str) -> Sequence[PlaceView]:
        """See `ports.limits`."""
        return await self._at_desk(lambda desk: desk.places_of(run))

    async def _at_desk(self, work: Callable[[SqlDesk], T]) -> T:
        given = self._moments.wall()
        answer, hints = await self._run(lambda link: at_desk(link, given, work))
        self._tell(hints)
        return answer
