"""A worker as its loops see it: what they share and use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from holdfast.core.queue import QueueRules
from holdfast.core.recovery import Kind
from holdfast.core.schedule import Definition
from holdfast.engine.engine import Engine
from holdfast.ports.leases import Beat, Claims, WorkerRow
from holdfast.ports.store import Store
from holdfast.ports.telemetry import Telemetry
from holdfast.worker.heartbeat import Heartbeat
from holdfast.worker.slots import Admission
from holdfast.worker.worker_options import WorkerOptions


class Passes(Protocol):
    """Called after each pass of the claim loop."""

    def passed(self) -> None:
        """A pass is over."""
        ...


class Seat(Protocol):
    """See the module."""

    heartbeat: type[Heartbeat]
    store: Store
    options: WorkerOptions
    engine: Engine
    row: WorkerRow
    work_hinted: asyncio.Event
    admission: Admission
    others_wrote: Callable[[], None]
    last_beat: Beat | None
    own_runs: list[str]
    telemetry: Telemetry
    schedules: Mapping[str, Definition]
    queues: Mapping[str, QueueRules]
    has_declared: bool
    is_stopping: bool
    is_stopped: bool

    @property
    def granted(self) -> Passes | None:
        """The grants of its leases, if those are not the store's."""
        ...

    @property
    def free(self) -> int:
        """Slots without a run."""
        ...

    async def claim(self, limit: int, only: Sequence[str] = ()) -> Claims:
        """Claims runs that are due."""
        ...

    async def recovered(self, own: Sequence[str], taken: Collection[str], /) -> None:
        """The runs of its earlier instance were tried."""
        ...

    def met(self, kind: Kind, run: str, detail: str, /) -> None:
        """Counts something that recovery found."""
        ...

    async def learn_flow_of(self, run: str, /) -> bool:
        """Serves the flow of a run that nothing serves, if possible."""
        ...
