"""Runs whose worker has gone: their rows say what they were doing when it went, until another one takes them over."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.ports.runs import RunRow
from holdfast.ports.store import Store


async def lost_runs(store: Store, rows: Sequence[RunRow]) -> dict[int, str]:
    """By the run's number, what there is to say of each whose holder no longer lives. Asks only if a run is held."""
    held = [row for row in rows if row.instance and not row.status.is_terminal]
    if not held:
        return {}
    workers = await store.workers()
    live = {worker.instance for worker in workers if worker.is_live}
    advice = "another one takes it over" if live else "no worker is live. Start one: holdfast worker"
    return {row.no: f"cut off: worker {row.worker} has gone; {advice}" for row in held if row.instance not in live}
