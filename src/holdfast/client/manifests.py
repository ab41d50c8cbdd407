"""The manifest of an app, with the steps that its store has seen of each script."""

from __future__ import annotations

from holdfast.authoring.registry import Registry
from holdfast.client.client import Client
from holdfast.core.manifest import Checkpoint, Manifest, entry_of, kind_of, manifest_of, observed
from holdfast.core.retry import Retry
from holdfast.core.specs import WorkflowSpec
from holdfast.core.turn import Turn, decode_row
from holdfast.errors import InvalidInput
from holdfast.ports.runs import Filter

ROWS = 200
"""Rows read of each journal: the beginning shows what a script asks for."""


async def manifest(registry: Registry, step_retry: Retry, client: Client | None, observe: int) -> Manifest:
    """One entry for each workflow that an author declared. For each script the newest `observe` runs are read."""
    entries = [
        entry_of(spec, await _checkpoints(client, spec, observe) if client is not None else ())
        for spec in registry
        if not spec.is_internal
    ]
    return manifest_of(entries, step_retry)


def check_observe(observe: int) -> int:
    """Checks how many runs of each script to read: 0 needs no store."""
    if isinstance(observe, bool) or not 0 <= observe <= 1000:
        raise InvalidInput(f"observe={observe!r}: give a number of runs from 0 to 1,000")
    return observe


async def _checkpoints(client: Client, spec: WorkflowSpec, observe: int) -> tuple[Checkpoint, ...]:
    if kind_of(spec) != "script":
        return ()
    page = await client.store.list(Filter(workflow=spec.name, version=spec.version), limit=observe)
    return observed([await _beginning(client, row.id) for row in page.runs])


async def _beginning(client: Client, run: str) -> list[Turn]:
    return [decode_row(row) for row in await client.store.history(run, limit=ROWS)]
