"""Runs that need a worker and have none: the worker has gone, or a message waits. Their rows say what they were doing
before."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.plurals import counted
from holdfast.core.status import Status
from holdfast.ports.leases import live_instances
from holdfast.ports.runs import RunRow
from holdfast.ports.store import Store


async def lost_runs(store: Store, rows: Sequence[RunRow]) -> dict[int, str]:
    """A note by the run's number, for each run whose holder is gone, or that has a message and no holder. Queries only
    if there may be one."""
    held = [row for row in rows if row.instance and not row.status.is_terminal]
    unread = [row for row in rows if row.inbox_last > row.inbox_read and _waits_for_a_worker(row)]
    if not held and not unread:
        return {}
    live = await live_instances(store)
    start = "no worker is live. Start one: holdfast worker"
    advice = "another one takes it over" if live else start
    found = {row.no: f"cut off: worker {row.worker} has gone; {advice}" for row in held if row.instance not in live}
    for row in unread:
        came = counted(row.inbox_last - row.inbox_read, "message")
        has = "has" if came == "1 message" else "have"
        found[row.no] = f"{came} {has} arrived; {'a worker takes it next' if live else start}"
    return found


def _waits_for_a_worker(row: RunRow) -> bool:
    """Whether the row does not say why no worker takes the run."""
    is_open = not row.status.is_terminal and row.status is not Status.PAUSED
    return is_open and not row.instance and not row.note
