"""The overview of a PostgreSQL store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from msgspec.structs import replace

from holdfast.adapters.postgres.access import Access
from holdfast.adapters.postgres.link import LONG, Link
from holdfast.adapters.postgres.run_list import conditions
from holdfast.adapters.sql import overview
from holdfast.core.status import Status
from holdfast.ports.overview import Spread
from holdfast.ports.runs import Filter

T = TypeVar("T")

RUNS = "{s}.runs"
# horizon: as the function `_horizon` says it, which reads the schema from the search path.
HORIZON = """
SELECT (SELECT value FROM {s}.meta WHERE name = 'first_seq')
    + pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 20
"""
NEWS = """
SELECT seq, id FROM {s}.events JOIN {s}.runs ON runs.no = events.run
WHERE seq > %b::bigint AND seq < %b::bigint ORDER BY seq LIMIT %b::bigint
"""


class Looking(Access):
    """The part of a PostgreSQL store that counts and summarises."""

    async def tally(self, which: Filter, *, at_most: int) -> dict[Status, int]:
        """See `ports.overview`."""
        parts, values = conditions(replace(which, statuses=()))
        statement = overview.tally_statement(RUNS, parts).replace("?", "%b")

        def ask(link: Link) -> dict[Status, int]:
            found = dict.fromkeys(Status, 0)
            for status in overview.wanted(which):
                ((found[status],),) = link.ask(statement, (status.value, *values, at_most), patience=LONG)
            return found

        return await self._run(ask)

    async def spread(self, which: Filter, *, since: datetime, width: timedelta, buckets: int, at_most: int) -> Spread:
        """See `ports.overview`."""
        parts, values = conditions(which)
        statement = overview.spread_statement(RUNS, parts).replace("?", "%b")
        bound = overview.spread_values(values, since, width, buckets, at_most)
        rows = await self._run(lambda link: link.ask(statement, bound, patience=LONG))
        return overview.spread_of(rows, buckets, at_most)

    async def final_seq(self) -> int:
        """See `ports.overview`. Anything that becomes visible later has the seq of a transaction that is still open."""
        ((horizon,),) = await self._run(lambda link: link.ask(HORIZON))
        return int(horizon) - 1

    async def news(self, *, after_seq: int, limit: int) -> Sequence[tuple[int, str]]:
        """See `ports.overview`. The horizon is read before the rows: what commits in between comes next time."""

        def ask(link: Link) -> Sequence[tuple[int, str]]:
            ((horizon,),) = link.ask(HORIZON)
            return [(seq, run) for seq, run in link.ask(NEWS, (after_seq, horizon, limit), patience=LONG)]

        return await self._run(ask)
