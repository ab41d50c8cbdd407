"""The overview of a SQLite store. Counting runs off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TypeVar

import apsw
from msgspec.structs import replace

from holdfast.adapters.sql import overview
from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite.access import Access
from holdfast.adapters.sqlite.connections import fetch
from holdfast.adapters.sqlite.run_list import conditions
from holdfast.core.status import Status
from holdfast.ports.overview import Spread
from holdfast.ports.runs import Filter

T = TypeVar("T")

RUNS = "runs"
NEWS = "SELECT seq, id FROM events JOIN runs ON runs.no = events.run WHERE seq > ? ORDER BY seq LIMIT ?"


class Looking(Access):
    """The part of a SQLite store that counts and summarises."""

    async def tally(self, which: Filter, *, at_most: int) -> dict[Status, int]:
        """See `ports.overview`."""
        parts, values = conditions(replace(which, statuses=()))
        statement = overview.tally_statement(RUNS, parts)

        def ask(connection: apsw.Connection) -> dict[Status, int]:
            found = dict.fromkeys(Status, 0)
            for status in overview.wanted(which):
                ((found[status],),) = fetch(connection, statement, (status.value, *values, at_most))
            return found

        return await asyncio.to_thread(self._read, ask)

    async def spread(self, which: Filter, *, since: datetime, width: timedelta, buckets: int, at_most: int) -> Spread:
        """See `ports.overview`."""
        parts, values = conditions(which)
        statement = overview.spread_statement(RUNS, parts)
        bound = overview.spread_values(values, since, width, buckets, at_most)
        rows = await asyncio.to_thread(self._read, lambda connection: fetch(connection, statement, bound))
        return overview.spread_of(rows, buckets, at_most)

    async def final_seq(self) -> int:
        """See `ports.overview`. With one writer at a time, every row is final."""
        ((newest,),) = self._read(lambda connection: fetch(connection, sql.NEWEST_SEQ))
        return newest or 0

    async def news(self, *, after_seq: int, limit: int) -> Sequence[tuple[int, str]]:
        """See `ports.overview`."""
        rows = self._read(lambda connection: fetch(connection, NEWS, (after_seq, limit)))
        return [(seq, run) for seq, run in rows]
