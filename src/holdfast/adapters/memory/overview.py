"""The overview of a memory store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from holdfast.adapters.memory.access import Access
from holdfast.adapters.memory.run_list import matches, place
from holdfast.core.status import Status
from holdfast.ports.overview import Spread
from holdfast.ports.runs import Filter


class Looking(Access):
    """The part of a memory store that counts and summarises."""

    async def tally(self, which: Filter, *, at_most: int) -> dict[Status, int]:
        """See `ports.overview`."""
        found = dict.fromkeys(Status, 0)
        with self._lock:
            for run in self._tables.runs.values():
                if matches(run, which):
                    found[run.status] = min(at_most, found[run.status] + 1)
        return found

    async def spread(self, which: Filter, *, since: datetime, width: timedelta, buckets: int, at_most: int) -> Spread:
        """See `ports.overview`."""
        found = [dict.fromkeys(Status, 0) for _ in range(buckets)]
        with self._lock:
            runs = [
                run
                for run in sorted(self._tables.runs.values(), key=place, reverse=True)
                if matches(run, which) and since <= run.created_at < since + width * buckets
            ][:at_most]
        for run in runs:
            found[(run.created_at - since) // width][run.status] += 1
        return Spread(tuple(found), len(runs) >= at_most)

    async def final_seq(self) -> int:
        """See `ports.overview`."""
        with self._lock:
            return max((row.seq for rows in self._tables.rows.values() for row in rows), default=0)

    async def news(self, *, after_seq: int, limit: int) -> Sequence[tuple[int, str]]:
        """See `ports.overview`."""
        with self._lock:
            new = sorted(
                (row.seq, row.run) for rows in self._tables.rows.values() for row in rows if row.seq > after_seq
            )
        return new[:limit]
