"""The row of a run that has ended, for what may be done only then."""

from __future__ import annotations

from holdfast.client.access import Access
from holdfast.core.ids import check_id
from holdfast.errors import RunNotFound, RunOpen
from holdfast.ports.runs import RunRow


async def ended_row(client: Access, run_id: str, what: str) -> RunRow:
    """The row. Raises `RunNotFound`, or `RunOpen` that says what to do first. `what`: what only such a run can be."""
    row = await client.store.get(check_id(run_id, "run id"))
    if row is None:
        raise RunNotFound(f"no run {run_id!r} in {client.store.url}")
    if not row.status.is_terminal:
        raise still_open(row, f"run {run_id} is {row.status.value}: only {what}")
    return row


def still_open(row: RunRow, why: str) -> RunOpen:
    """The error that says how that run ends."""
    return RunOpen(
        f"{why}. Cancel {row.id} (or kill it) and wait for its end first: holdfast cancel {row.id}",
        run_id=row.id,
        status=row.status.value,
    )
