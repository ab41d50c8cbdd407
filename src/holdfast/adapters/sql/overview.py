"""The overview of a SQL store: statements built from constant parts, and the meaning of their rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from holdfast.adapters.sql.rows import counted
from holdfast.core.status import Status
from holdfast.core.turn import micros
from holdfast.ports.overview import Spread
from holdfast.ports.runs import Filter

MICROSECOND = timedelta(microseconds=1)

COUNTED_FROM = "SELECT count(*) FROM (SELECT 1 FROM {runs} WHERE status = ?"
COUNTED_TO = "LIMIT ?) AS found"
SPREAD_FROM = """
SELECT bucket, status, count(*) FROM (
    SELECT (created_at - CAST(? AS bigint)) / CAST(? AS bigint) AS bucket, status FROM {runs} WHERE created_at >= ?
        AND created_at < ?
"""
SPREAD_TO = "ORDER BY created_at DESC LIMIT ?) AS found GROUP BY bucket, status"


def wanted(which: Filter) -> Sequence[Status]:
    """The statuses that a filter accepts."""
    return which.statuses or tuple(Status)


def tally_statement(runs: str, parts: Iterable[str]) -> str:
    """Counts runs of one status, up to a limit."""
    return "\n".join((COUNTED_FROM.format(runs=runs), *parts, COUNTED_TO))


def spread_statement(runs: str, parts: Iterable[str]) -> str:
    """Counts runs by bucket and status, the newest of them."""
    return "\n".join((SPREAD_FROM.format(runs=runs), *parts, SPREAD_TO))


def spread_values(
    values: Iterable[Any], since: datetime, width: timedelta, buckets: int, at_most: int
) -> tuple[Any, ...]:
    """The values bound in the statement of a spread."""
    first, step = micros(since), width // MICROSECOND
    return first, step, first, first + step * buckets, *values, at_most


def spread_of(rows: Iterable[tuple[int, str, int]], buckets: int, at_most: int) -> Spread:
    """The spread in the rows of its statement."""
    by_bucket: dict[int, list[tuple[str, int]]] = {}
    total = 0
    for bucket, word, count in rows:
        by_bucket.setdefault(bucket, []).append((word, count))
        total += count
    return Spread(tuple(counted(by_bucket.get(number, ())) for number in range(buckets)), total >= at_most)
