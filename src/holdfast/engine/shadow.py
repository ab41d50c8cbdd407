"""Shadow replay, `App(paranoid=True)`: whenever a run is parked or has ended, its program is thrown away and its
journal replayed at once, and what the code asks for is compared with what the journal holds.

It finds a workflow that is not deterministic while it is being written, not after the first crash. A run that differs
is paused as diverged, with both sides and the line; for one that has ended, this is only logged. It costs a replay each
time, so it is for development and tests.
"""

from __future__ import annotations

from holdfast.core.run import Run
from holdfast.engine import unopened
from holdfast.engine.home import EngineHome
from holdfast.engine.report import close
from holdfast.engine.session import Session
from holdfast.errors import Diverged, HoldfastError
from holdfast.ports.facts import RunDiverged, Trouble
from holdfast.ports.leases import Over, Taken
from holdfast.turn.replay import Missing, Replay


class Shadow:
    """See the module."""

    def __init__(self, engine: EngineHome) -> None:
        self._engine = engine

    def left(self, session: Session) -> None:
        """A session has released its run, or ended it."""
        self._engine.spawn(self._replay(session.run.id, session.no, session.run.ordinal))

    async def _replay(self, run_id: str, no: int, ordinal: int) -> None:
        engine = self._engine
        try:
            journals = await engine.asking.journals({no: ordinal})
            loaded = await engine.asking.load(no, run_id, journals[no])
            replay = Replay(loaded, engine.registry, engine.settings)
            if isinstance(replay.result, Missing):
                return
            try:
                close(engine.telemetry, await engine.asking.replayed(replay), run_id)
            except Diverged as error:
                await self._pause(loaded.run, error)
        except HoldfastError as error:  # the worker that claims the run meets the same, and says what to do
            engine.telemetry.tell(Trouble("not replayed in the shadow", error, run=run_id))

    async def _pause(self, run: Run, error: Diverged) -> None:
        """The current holder has replayed the run too, and found the same."""
        engine = self._engine
        taken = await engine.store.take(run.id, instance=f"{engine.worker_id} (shadow replay)")
        if isinstance(taken, Over):
            engine.telemetry.tell(RunDiverged(run.id, error))
        elif isinstance(taken, Taken):
            row = taken.run
            if row.next_ordinal == run.ordinal + 1:
                unopened.pause(engine, row, run, error)
            else:  # it moved on meanwhile
                seen = row.inbox_read
                await engine.store.release(row.no, epoch=row.epoch, until=engine.clock.now(), inbox_seen=seen)
