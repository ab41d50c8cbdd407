"""Which definition a run executes: the one registered here, or, for a flow, the snapshot stored with its start.

Whoever lacks a definition, or a component it calls, leaves the run to others: that is a matter of deployment, never the
run's failure.
"""

from __future__ import annotations

import msgspec

from holdfast.core.run import Run
from holdfast.core.specs import WorkflowSpec
from holdfast.engine.registry import Registry
from holdfast.extras import install_command
from holdfast.ports.runs import RunRow
from holdfast.ports.store import Store


class Missing(msgspec.Struct, frozen=True):
    """This process cannot advance the run, and why."""

    note: str


class Definitions:
    """The definitions of one worker."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry

    async def of(self, run: Run) -> WorkflowSpec | Missing:
        """What the run executes, read from the store if it has to be."""
        found = self._registry.of(run)
        if found is not None:
            return found
        if run.style != "flow":
            return Missing(f"workflow {run.workflow} {run.version} is not registered here")
        spec = self._registry.learn(await self._store.get_blob(run.code))
        return self._registry.of(run) or self._lacking(spec)

    async def learn(self, row: RunRow) -> bool:
        """Serves the flow of a run that no worker alive holds, if it is one whose components are here."""
        if await self._store.blob_kind(row.code) != "definition":
            return False
        spec = self._registry.learn(await self._store.get_blob(row.code))
        if self._registry.executable(spec) is None:
            return False
        self._registry.learn(spec.definition, is_served=True)
        return True

    def _lacking(self, spec: WorkflowSpec) -> Missing:
        names = self._registry.missing(spec)
        if not names:
            return Missing(
                f"flow {spec.label} has JSON Schemas, and the library that checks them is not installed here. "
                f"Install it: {install_command('flows')}"
            )
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        return Missing(f"flow {spec.label} calls {shown}, which is not registered here")
