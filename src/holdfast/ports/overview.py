"""The overview of a store: the number of runs, their distribution over time, and what is new. Only reads.

Callers give a limit for every answer, however many runs there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from holdfast.core.status import Status
from holdfast.ports.runs import Filter


class Spread(msgspec.Struct, frozen=True, gc=False):
    """Runs by creation time and status: one `dict` for each bucket. `is_capped`: only the newest count."""

    buckets: tuple[dict[Status, int], ...]
    is_capped: bool


class Overview(Protocol):
    """The queries of a page that shows a whole store."""

    async def tally(self, which: Filter, *, at_most: int) -> dict[Status, int]:
        """The number of runs of each status that match the filter, each counted up to `at_most`. Statuses that the
        filter excludes are left out."""
        ...

    async def spread(self, which: Filter, *, since: datetime, width: timedelta, buckets: int, at_most: int) -> Spread:
        """Runs that match the filter, created from `since` on, in buckets of that width; beyond `at_most` only the
        newest are counted."""
        ...

    async def final_seq(self) -> int:
        """A seq up to which everything is final: no row with a lower one appears later."""
        ...

    async def news(self, *, after_seq: int, limit: int) -> Sequence[tuple[int, str]]:
        """Seq and run of journal rows with a greater seq, in their order, as far as they are final. The cost depends on
        the rows it returns, not on earlier ones."""
        ...
