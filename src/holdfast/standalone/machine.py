"""`Machine`: a workflow of typed states that can also run in the calling process, without an app."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from holdfast.authoring.machine.machine_workflow import MachineWorkflow
from holdfast.standalone import alone

if TYPE_CHECKING:
    from holdfast.authoring.script.resources import Health
    from holdfast.ports.machine_log import MachineLog

F = TypeVar("F")
E = TypeVar("E")


class Machine(MachineWorkflow[F, E], Generic[F, E]):
    """`Machine[First, Final]("name")`: a workflow of typed states.

    `timeout` limits the whole run, `compensation_timeout` the undoing; `retry` is the default policy of states, and
    `raises` lists the exceptions that leave a run unchanged. `was` maps earlier labels to final states that were
    renamed; handlers have a `was=` of their own.
    """

    async def run(
        self,
        state: F,
        *,
        store: MachineLog | None = None,
        id: str | None = None,
        keep_log: bool = False,
        cancel: asyncio.Event | None = None,
    ) -> E:
        """Runs here, without an app, to a final state. Raises `StateFailed` after undoing what was completed.

        Without a store nothing is recorded. With one, and an id, it survives a crash: see `resume`. Setting `cancel`
        stops the run at its next boundary, with `RunCancelled`.
        """
        return cast("E", await alone.run(self.build(), self.resources, state, store, id, keep_log, cancel))

    async def resume(
        self, id: str, *, store: MachineLog, keep_log: bool = False, cancel: asyncio.Event | None = None
    ) -> E:
        """Resumes a run from its log: enters its last state again, or continues undoing."""
        return cast("E", await alone.resume(self.build(), self.resources, id, store, keep_log, cancel))

    async def health(self) -> dict[str, Health]:
        """The health of the machine's resources: opens them, checks each, closes them."""
        return await alone.health(self.build(), self.resources)
