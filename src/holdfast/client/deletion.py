"""Deletes an ended run with its whole tree, for a client. `Upkeep.remove`, which retention uses too, does the work in
one transaction."""

from __future__ import annotations

import asyncio

from holdfast.client.access import Access
from holdfast.client.ended_run import ended_row, still_open
from holdfast.core.status import Status
from holdfast.errors import Conflict
from holdfast.ports.facts import RunDeleted
from holdfast.ports.runs import Filter, RunRow

TRIES = 20
BREATH = 0.05
"""Seconds between two tries while another transaction holds rows of the tree."""

ENDED = "a tree that has ended can be deleted"

_OPEN = tuple(status for status in Status if not status.is_terminal)


async def delete(client: Access, run_id: str) -> int:
    """Deletes the tree. Returns how many runs were deleted. The store checks it again inside the transaction: if a run
    of the tree is open then, nothing is deleted."""
    for _ in range(TRIES):
        await check_deletable(client, run_id)
        removed = await client.store.remove([run_id], None, is_asked=True)
        if removed.trees:
            if RunDeleted in client.telemetry.wanted:
                client.telemetry.tell(RunDeleted(run_id, removed.runs, client.actor))
            return removed.runs
        await asyncio.sleep(BREATH)
    raise Conflict(f"run {run_id} was not deleted: another transaction holds rows of its tree. Try again.")


async def check_deletable(client: Access, run_id: str) -> RunRow:
    """The row of a root whose whole tree has ended. Raises an error that says what to do first. Only reads."""
    row = await ended_row(client, run_id, ENDED)
    if row.root != row.id:
        raise Conflict(
            f"run {run_id} is a child in the tree of {row.root}: a tree is deleted as a whole, from its root. "
            f"Delete {row.root}, which deletes {run_id} too."
        )
    for one in (await client.store.list(Filter(root=row.id, statuses=_OPEN), limit=1)).runs:
        raise still_open(one, f"run {run_id} has ended, and {one.id} of its tree is {one.status.value}: only {ENDED}")
    return row
