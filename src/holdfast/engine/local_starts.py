"""Runs that are created, claimed and begun here, in one transaction.

A run that is started beside its worker needs no second transaction for the claim, and its first turn is known before
the run exists: the program is activated over its future row, and run, lease and turn are written together. Until the
store has answered the session is unborn. No body starts, and `Engine.check_held` does not see the session, since its
query may be sent before the run is created and answered afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial

from holdfast.core.run import Run
from holdfast.core.turn import Turn
from holdfast.engine import report
from holdfast.engine.home import EngineHome
from holdfast.engine.report import close
from holdfast.engine.session import Session
from holdfast.errors import StoreError
from holdfast.ports.facts import RunFound, Trouble
from holdfast.ports.journal import Commit, Committed
from holdfast.ports.runs import Creation, Existing, Filter, Made, NewRun, RunRow
from holdfast.turn.replay import begun


class Beginnings:
    """See the module."""

    def __init__(self, engine: EngineHome) -> None:
        self._engine = engine
        self._all_answered: asyncio.Future[None] | None = None
        self.unanswered: set[str] = set()
        """Runs that were requested and are not held yet. Each occupies a slot from the moment of the request: however
        many are started at once, no more of them begin here than there are slots."""
        self._lost: dict[str, Session] = {}
        self._is_closed = False
        self.unborn: dict[str, Session] = {}

    async def make(self, new: NewRun, turn: Turn, *, key_since: datetime, instance: str, is_named: bool) -> Creation:
        """Creates the run and begins it. `is_named`: the caller chose the id, so it may be in use. A caller that gives
        up loses the handle, never the run: see `_ask_again`."""
        engine, name = self._engine, new.row.run
        if name in engine.sessions or name in engine.opening:
            return await engine.store.create(new, key_since=key_since)
        engine.opening.add(name)
        self.unanswered.add(name)
        session: Session | None = None
        ask: Callable[[], Awaitable[Creation]] | None = None
        try:
            first: Commit | None = None
            # Whether a unique value is free is known in the transaction alone: until then no code of the workflow runs.
            may_be_used = is_named or bool(new.started.key)
            if not new.unique and not (may_be_used and await self._is_in_use(new, key_since, is_named)):
                session, first = engine.bodies.context.copy().run(self._unborn, new, turn)
            worker = engine.worker_id
            ask = partial(engine.store.create, new, key_since=key_since, instance=instance, worker=worker, first=first)
            made = await ask()
        except asyncio.CancelledError:
            if ask is None:  # nothing was sent
                self._end(name)
            else:
                engine.spawn(self._ask_again(ask, session, new, instance))
            raise
        except BaseException:  # refused, or the answer was lost: the run may be there all the same
            self._doubt(session, name)
            raise
        await self._settle(made, session, new, instance)
        return made

    async def _ask_again(
        self, ask: Callable[[], Awaitable[Creation]], session: Session | None, new: NewRun, instance: str
    ) -> None:
        """Sends a start again whose caller gave up. Whichever of the two comes first makes the run, with the same rows.
        The answer here says that it is ours, and its session begins."""
        name = new.row.run
        try:
            made = await ask()
        except BaseException as error:
            self._doubt(session, name)
            if not isinstance(error, Exception):
                raise
            return
        try:
            if not isinstance(made, Existing) or (made.run.id, made.run.instance) != (name, instance):
                await self._settle(made, session, new, instance)
            elif session is None:
                await self._engine.take_on([made.run])
            else:
                self._lost[name] = session
                self.found(made.run)
        except Exception as error:  # noqa: BLE001 nobody waits for this task; the next comparison takes the run on
            self._engine.doubt()
            what = "was started, and could not be begun at once; it is tried again"
            self._engine.telemetry.tell(Trouble(what, error, run=name, is_known=isinstance(error, StoreError)))
        finally:
            self._end(name)

    async def _settle(self, made: Creation, session: Session | None, new: NewRun, instance: str) -> None:
        name = new.row.run
        try:
            if session is not None and isinstance(made, Made) and made.first is not None and not self._is_closed:
                self._engine.bodies.context.copy().run(self._born, session, made.run.no, made.first)
                return
            self._discard(session)
            if isinstance(made, Made) and made.run.instance == instance and made.first is None:
                await self._engine.take_on([made.run], {name: new.row})
        except BaseException:
            self._engine.doubt()
            raise
        finally:
            self._end(name)

    def _doubt(self, session: Session | None, name: str) -> None:
        """The start failed, and the run may be there or not."""
        if session is not None:
            self._lost[name] = session
        self._engine.doubt()
        self._end(name)

    def _end(self, name: str) -> None:
        """The start was answered, or will not be."""
        self.unborn.pop(name, None)
        self._engine.opening.discard(name)
        if name in self.unanswered:  # it was not born
            self.unanswered.discard(name)
            self._engine.freed()
        if self._all_answered is not None and not self.unanswered and not self._all_answered.done():
            self._all_answered.set_result(None)

    async def _is_in_use(self, new: NewRun, key_since: datetime, is_named: bool) -> bool:
        """Whether the id or key is certainly in use: then the workflow's code need not run."""
        store, started = self._engine.store, new.started
        if is_named and await store.get(new.row.run) is not None:
            return True
        if not started.key:
            return False
        page = await store.list(Filter(workflow=started.workflow, key=started.key), limit=1)
        return any(run.created_at > key_since for run in page.runs)

    def _unborn(self, new: NewRun, turn: Turn) -> tuple[Session | None, Commit | None]:
        """The session of a run that does not exist yet, and its first turn; neither if the program cannot be made."""
        engine = self._engine
        run = Run(new.row.run)
        run.apply(turn)
        try:
            program = begun(run, turn, new.blobs, engine.registry, engine.settings)
            if program is None:  # a flow that is not known here yet
                return None, None
            session = Session(engine, 0, 1, 0, run, program)
            self.unborn[run.id] = session
            session.open(run, program)
        except Exception as error:  # noqa: BLE001 the run is made all the same
            what = "could not be begun with its start; it is claimed like any other"
            engine.telemetry.tell(Trouble(what, error, run=run.id, is_known=False, is_bug=True))
            self._discard(self.unborn.get(run.id))
            return None, None
        assert session.unsent is not None, "a run that was never activated takes a turn"
        return session, session.unsent

    def _born(self, session: Session, no: int, verdict: Committed) -> None:
        engine, name = self._engine, session.machine.run.id
        self.unborn.pop(name, None)
        self.unanswered.discard(name)
        engine.sessions[name] = session
        report.claimed(session, is_new=True)
        if engine.is_draining:
            session.drain()
        session.born(no, verdict)

    def _discard(self, session: Session | None) -> None:
        if session is not None:
            self.unborn.pop(session.run.id, None)
            close(self._engine.telemetry, session.program, session.run.id)
            self._engine.freed()

    # -- answers that were lost ----------------------------------------------------------------------------------------

    def found(self, row: RunRow) -> bool:
        """A run that the store lists as ours and that is unknown here. If its start was not answered, it is born now.
        Only this worker can have written the turn, so the session is where the journal ends."""
        session = self._lost.pop(row.id, None)
        if session is None:
            return False
        if row.epoch != session.epoch or row.next_ordinal != session.run.ordinal + 1 or self._is_closed:
            self._discard(session)
            return False
        self._engine.telemetry.tell(RunFound(row.id))
        self._born(session, row.no, Committed(0, row.inbox_last))
        return True

    def give_up(self) -> None:
        """Forgets a start: a run that was not found by now was never created."""
        while self._lost:
            self._discard(self._lost.popitem()[1])

    async def close(self, limit: float) -> None:
        """Waits for the pending answers, but not forever."""
        if self.unanswered:
            self._all_answered = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._all_answered], timeout=limit)
        self._is_closed = True
        self.give_up()
