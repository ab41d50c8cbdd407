"""The condition of a memory store, and the runs that wait for a worker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from holdfast.adapters.memory.access import Access
from holdfast.ports.condition import Backlog, Condition
from holdfast.ports.runs import RunRow


class Examined(Access):
    """The part of a memory store that reports its condition."""

    async def condition(self) -> Condition:
        """See `ports.condition`."""
        return Condition(engine="memory", durability="none: everything is lost when the process ends")

    async def backlog(self) -> Sequence[Backlog]:
        """See `ports.condition`."""
        with self._lock:
            return backlog_of(self._tables.runs.values(), self._clock.now())


def backlog_of(runs: Iterable[RunRow], now: datetime) -> list[Backlog]:
    """Runs that wait for a worker, by definition and queue, the longest wait first."""
    found: dict[tuple[str, str, str], Backlog] = {}
    for run in runs:
        since = run.updated_at if run.bounces else run.available_at
        if run.instance or run.available_at is None or since is None or (run.available_at > now and not run.bounces):
            continue
        key = (run.workflow, run.version, run.queue)
        known = found.get(key)
        is_older = known is None or since < known.since
        found[key] = Backlog(
            workflow=run.workflow,
            version=run.version,
            queue=run.queue,
            count=1 + (known.count if known else 0),
            oldest=run.id if is_older or known is None else known.oldest,
            since=since if is_older or known is None else known.since,
        )
    return sorted(found.values(), key=lambda one: one.since)
