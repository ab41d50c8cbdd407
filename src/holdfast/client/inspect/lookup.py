"""Finds a run by its id, or suggests similar ones."""

from __future__ import annotations

from holdfast.client.client import Client
from holdfast.core.hints import did_you_mean
from holdfast.core.ids import check_id
from holdfast.errors import RunNotFound
from holdfast.ports.runs import Filter, RunRow

RECENT = 500
"""Maximum number of runs checked for a hint."""


async def find_run(client: Client, run_id: str) -> RunRow:
    """The row of a run. Raises `RunNotFound`, which names runs with similar ids, or `InvalidId` for an id that no run
    can have."""
    row = await client.store.get(check_id(run_id, "run id"))
    if row is not None:
        return row
    recent = await client.store.list(Filter(), limit=RECENT)
    hint = did_you_mean(run_id, [one.id for one in recent.runs])
    raise RunNotFound(f"no run {run_id!r} in {client.store.url}.{hint or ' `holdfast runs` lists them.'}")
