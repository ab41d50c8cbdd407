"""The overview of a store: how many runs there are, spread over time, and what is new. Reading only.

Every answer is bounded by what its asker gives, however many runs there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from holdfast.core.status import Status
from holdfast.ports.runs import Filter


class Spread(msgspec.Struct, frozen=True, gc=False):
    """Runs by the time they were made and by status: one `dict` for each bucket. `is_capped`: only the newest count."""

    buckets: tuple[dict[Status, int], ...]
    is_capped: bool


class Overview(Protocol):
    """What a page asks that shows a whole store."""

    async def tally(self, which: Filter, *, at_most: int) -> dict[Status, int]:
        """How many runs of each status the filter lets through, counted up to `at_most` for each. Statuses that the
        filter leaves out have none."""
        ...

    async def spread(self, which: Filter, *, since: datetime, width: timedelta, buckets: int, at_most: int) -> Spread:
        """Runs that the filter lets through, made from `since` on, in buckets of that width; of more than `at_most` the
        newest are counted."""
        ...

    async def final_seq(self) -> int:
        """A seq up to which everything is final: no row with a lower one appears later."""
        ...

    async def news(self, *, after_seq: int, limit: int) -> Sequence[tuple[int, str]]:
        """Seq and run of journal rows with a greater seq, in their order, as far as they are final. The cost is that of
        the rows it gives, however many there are before."""
        ...
