"""The limits of a PostgreSQL store: each verb is a transaction of its own, on a lent connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from holdfast.adapters.limits.places import move_places, promote, tend
from holdfast.adapters.limits.sql_desk import SqlDesk
from holdfast.adapters.postgres.limit_statements import NOW, STATEMENTS
from holdfast.adapters.postgres.link import Link
from holdfast.adapters.postgres.schedules import Scheduled
from holdfast.ports.limits import BusyLine, Line, PlaceAnswer, PlaceMove, PlaceView, StoredLimit

T = TypeVar("T")


class Limiting(Scheduled):
    """The part of a PostgreSQL store that keeps limits."""

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
        return await self._at_desk(lambda desk: move_places(desk, move))

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

        def transact(link: Link) -> tuple[T, list[str]]:
            def at_desk(ask: Callable[[str, Sequence[Any]], list[Any]]) -> tuple[T, list[str]]:
                desk = SqlDesk(ask, STATEMENTS, ask(NOW, (given,))[0][0])
                return work(desk), list(desk.hints)

            return link.transact(at_desk)

        answer, hints = await self._run(transact)
        self._tell(hints)
        return answer
