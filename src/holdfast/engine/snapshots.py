"""Snapshots and compaction of the runs a worker holds, beside them: they read the journal, never a session.

Nothing here fails a turn, and turns wait only for the transaction of a compaction. Errors are reported, and the run
continues without a snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.core.run import Run
from holdfast.core.snapshot import is_due
from holdfast.core.specs import Settings
from holdfast.errors import HoldfastError
from holdfast.ports.facts import Trouble
from holdfast.ports.store import Store
from holdfast.ports.telemetry import Telemetry
from holdfast.upkeep.compaction import take_snapshot


class Snapshots:
    """Makes snapshots of runs as they grow."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        telemetry: Telemetry,
    ) -> None:
        self._telemetry = telemetry
        self._store = store
        self._settings = settings
        self._spawn = spawn
        self._last: dict[str, int] = {}
        self._busy: dict[str, tuple[Run, int] | None] = {}  # what is under way, and the look that came meanwhile
        self._left: set[str] = set()  # of those under way: runs that are no longer held

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way."""
        return not self._busy

    def look(self, run: Run, no: int) -> None:
        """Makes a snapshot if the run has grown enough since the last; drops those of a run that has ended. While one
        is being made the check waits for it, so that rows written meanwhile are not missed even if the run parks."""
        every = self._settings.snapshot_every
        if not 0 < every <= run.ordinal:
            return
        if run.id in self._busy:
            self._busy[run.id] = (run, no)
        elif run.end is not None:
            self._last.pop(run.id, None)
            self._start(run.id, self._forget(run.id, no))
        elif is_due(every, run.ordinal, self._last.get(run.id, 0)):
            self._start(run.id, self._take(run.id, no, run.ordinal))

    def known(self, run: str, ordinal: int) -> None:
        """A run was opened from a snapshot of that ordinal."""
        self._last[run] = ordinal

    def left(self, run: Run, no: int) -> None:
        """The run is no longer held here: checks it one last time."""
        self.look(run, no)
        if run.id in self._busy:
            self._left.add(run.id)
        else:
            self._last.pop(run.id, None)

    def _start(self, run: str, work: Coroutine[Any, Any, None]) -> None:
        self._busy[run] = None
        self._spawn(work)

    def _done(self, run: str) -> None:
        waiting = self._busy.pop(run)
        if waiting is not None:
            self.look(*waiting)
        if run in self._left and run not in self._busy:
            self._left.discard(run)
            self._last.pop(run, None)

    async def _take(self, run: str, no: int, ordinal: int) -> None:
        try:
            reached = await take_snapshot(self._store, run, no, ordinal, self._settings, self._telemetry.tell)
            self._last[run] = max(reached, self._last.get(run, 0))
        except HoldfastError as error:
            self._last[run] = ordinal  # not again at every look
            self._telemetry.tell(Trouble("no snapshot made", error, run=run))
        finally:
            self._done(run)

    async def _forget(self, run: str, no: int) -> None:
        try:
            await self._store.drop_snapshots([no])
        except HoldfastError as error:
            self._telemetry.tell(Trouble("its snapshot stays until the run is removed", error, run=run))
        finally:
            self._done(run)
