"""The engine of one worker: its sessions, and what they share."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from holdfast.authoring.hook import Hook
from holdfast.authoring.registry import Registry
from holdfast.authoring.script.resources import resources_named_by
from holdfast.core import events as e
from holdfast.core.program import Program
from holdfast.core.recovery import Kind
from holdfast.core.run import Run
from holdfast.core.specs import Settings, WorkflowSpec
from holdfast.core.suspicion import is_convicted
from holdfast.core.turn import Row
from holdfast.engine import report, unopened
from holdfast.engine.bodies import Bodies
from holdfast.engine.claim_backoff import PutOffs
from holdfast.engine.committer import Committer
from holdfast.engine.definitions import Definitions
from holdfast.engine.holdings import Holdings
from holdfast.engine.hooks import Hooks
from holdfast.engine.inbox_reader import News, opened
from holdfast.engine.local_starts import Beginnings
from holdfast.engine.report import close
from holdfast.engine.session import Session
from holdfast.engine.shadow import Shadow
from holdfast.engine.snapshots import Snapshots
from holdfast.engine.store_reads import Asking, Notes
from holdfast.engine.surroundings import WorkerSurroundings
from holdfast.engine.suspects import Suspects
from holdfast.engine.warm import WarmProgram, WarmPrograms
from holdfast.engine.wheel import Wheel
from holdfast.errors import CorruptJournal, HoldfastError, StoreError
from holdfast.ports.clock import Clock
from holdfast.ports.facts import Trouble
from holdfast.ports.inbox import Unconsumed
from holdfast.ports.limits import PlaceMove
from holdfast.ports.runs import RunRow
from holdfast.ports.store import Store
from holdfast.ports.telemetry import Telemetry
from holdfast.turn.effects import MovePlaces
from holdfast.turn.history import Journal, run_of_row
from holdfast.turn.replay import Missing, Replay, begun_anew
from holdfast.turn.rules import Rules

SETTLE = 2.0
"""Seconds that a closing engine waits for turns that the store has not answered."""

T = TypeVar("T")


class Engine:
    """Advances the runs it is given, as long as it holds them."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        settings: Settings,
        surroundings: WorkerSurroundings,
        *,
        worker_id: str,
        telemetry: Telemetry,
        hooks: Sequence[Hook] = (),
        threads: int = 32,
        warm: int = 1_000,
        freed: Callable[[bool], None] = lambda _: None,
        met: Callable[[Kind, str, str], None] = lambda _kind, _run, _detail: None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.store = store
        self.registry = registry
        self.settings = settings
        self.surroundings = surroundings
        self.worker_id = worker_id
        self.telemetry: Telemetry = telemetry
        self.clock: Clock = store.clock
        self.wheel: Wheel = Wheel(store.clock, telemetry)
        self.snapshots: Snapshots = Snapshots(store, settings, self.spawn, telemetry)
        self.asking: Asking = Asking(store, settings, telemetry)
        self.definitions: Definitions = Definitions(store, registry)
        self.shadow: Shadow = Shadow(self)
        self.committer: Committer = Committer(store, telemetry, lambda: self.busy <= 1)
        self.bodies: Bodies = Bodies(threads, Hooks(hooks, telemetry))
        self.sessions: dict[str, Session] = {}
        self.resting = 0
        self._freed = freed
        self.on_end: Callable[[e.ChildEnded], None] = lambda _: None
        self.met = met
        self.warm: WarmPrograms = WarmPrograms(warm, telemetry)
        self.rules: Rules = Rules(settings, worker_id, store.is_exclusive, self._draw, self.spec_of)
        self.chance: Callable[[], float] = chance
        self._news = News(self)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._settlements: set[asyncio.Task[None]] = set()
        self.is_draining: bool = False
        self.opening: set[str] = set()
        self.beginnings: Beginnings = Beginnings(self)
        self.lines_hinted: asyncio.Event = asyncio.Event()  # a step waits for a place, or a worker died that had some
        self._put_offs = PutOffs()
        self.suspects: Suspects = Suspects(self)
        self.holdings: Holdings = Holdings(self, self.beginnings, self.snapshots, self.suspects)

    @property
    def busy(self) -> int:
        """The number of runs that occupy a slot. A session that only waits briefly does not."""
        return len(self.sessions) + len(self.beginnings.unanswered) - self.resting

    @property
    def is_quiet(self) -> bool:
        """Whether no run is held or about to be."""
        return not self.sessions and not self.beginnings.unborn

    def _draw(self) -> float:
        return self.chance()

    def spec_of(self, run: Run) -> WorkflowSpec:
        """The definition of a run it holds."""
        spec = self.registry.of(run)
        assert spec is not None
        return spec

    # -- taking runs on ------------------------------------------------------------------------------------------------

    async def take_on(self, rows: Sequence[RunRow], known: Mapping[str, Row] | None = None) -> None:
        """Advances claimed runs. `known` holds the only row of runs that were just created here."""
        names = {row.id for row in rows}
        self.opening |= names
        try:
            await self.holdings.answered(names)
            await self._take_on(rows, known)
        finally:
            self.opening -= names

    async def _take_on(self, rows: Sequence[RunRow], known: Mapping[str, Row] | None) -> None:
        cold: dict[int, int] = {}
        unread: dict[int, int] = {}
        warm: dict[str, WarmProgram] = {}
        for row in rows:
            if (earlier := self.sessions.get(row.id)) is not None:  # its lease had run out: our own claim fences it
                earlier.drop("claimed again by its own worker")
            kept = self.warm.take(row)
            if kept is not None:
                warm[row.id] = kept
            elif not known or row.id not in known:
                cold[row.no] = row.next_ordinal - 1
            if row.inbox_last != row.inbox_read and not row.damage:
                unread[row.no] = 0  # one that is unread below what was read is noticed
        journals: Mapping[int, Journal] = {}
        inbox: Mapping[int, list[Unconsumed]] = {}
        if cold:
            journals = await self.asking.journals(cold)
        if unread:
            inbox = await self.asking.insist(lambda: self.store.unread(unread), "reading the inboxes of claimed runs")
        notes = Notes(self.store)
        for row in rows:
            events: list[e.AnyEvent] = []
            last = 0
            if row.no in unread:
                events, last = opened(self.telemetry, row.id, inbox.get(row.no, []), row.inbox_read, row.inbox_last)
            kept = warm.get(row.id)
            try:
                if kept is None:
                    journal = Journal([known[row.id]]) if known and row.id in known else journals[row.no]
                    await self._open_cold(row, journal, events, last, notes)
                else:
                    events = await self.asking.with_payloads(events)
                    events = await self.asking.unopposed(row.no, row.epoch, kept.program, events)
                    self._open(row, kept.run, kept.program, events, last)
            except Exception as error:  # noqa: BLE001 one run never stops the others
                if isinstance(error, CorruptJournal) and kept is not None:  # a message to a program that is warm
                    kept.close()
                    unopened.pause(self, row, kept.run, error)
                    continue
                is_known = isinstance(error, StoreError)
                self.telemetry.tell(Trouble("could not be opened", error, run=row.id, is_known=is_known))
                self.met("failed", row.id, str(error))
                broken = self.sessions.get(row.id)
                if broken is not None and broken.epoch == row.epoch:
                    broken.drop("could not be opened", event="abandoned")  # or it would keep its slot forever
                await self._put_back(row)

    async def _open_cold(
        self, row: RunRow, journal: Journal, events: list[e.AnyEvent], last: int, notes: Notes
    ) -> None:
        run: Run | None = None
        try:
            loaded = await self.asking.load(row.no, row.id, journal)
            run = loaded.run
            if run.epoch > row.epoch:  # taken over while we read: whatever we wrote would be fenced
                self.freed()
                return
            unopened.check_row(row)
            replay = Replay(loaded, self.registry, self.settings)
            if replay.spec is None:
                await self._define(replay)
            if isinstance(replay.result, Missing):
                note = replay.result.note
                self.met("missing definition", row.id, note)
                await self._put_back(row, note=note)
                return
            if is_convicted(row.suspicion, row.claims, self.settings.max_claims):
                unopened.pause(self, row, run, None)
                return
            program = await self.asking.replayed(replay)
            if journal.snapshot is not None:
                self.snapshots.known(row.id, journal.snapshot.ordinal)
            events = await self.asking.with_payloads(events)
            events = await self.asking.unopposed(row.no, row.epoch, program, events)
        except HoldfastError as error:
            if isinstance(error, StoreError) and not isinstance(error, CorruptJournal):
                raise
            unopened.pause(self, row, run or run_of_row(row, journal.rows), error)
            return
        if any(not step.is_unstarted for step in run.in_flight):
            self.met("taken over", row.id, run.worker)
            await notes.give(run)
        self._open(row, run, program, events, last)

    async def _define(self, replay: Replay) -> None:
        """Reads a definition that is new here, and opens what its bodies need."""
        if replay.needs:
            await self.asking.supply(replay)
        if replay.spec is not None:
            await self.surroundings.open(resources_named_by(replay.spec.bodies))

    def _open(self, row: RunRow, run: Run, program: Program, events: list[e.AnyEvent], last: int) -> None:
        session = Session(self, row.no, row.epoch, row.inbox_read, run, program)
        self.sessions[row.id] = session
        self._put_offs.forget(row.id)
        report.claimed(session)
        self.suspects.opened(session, row)
        session.open(run, program, events, last)
        if self.is_draining:  # it was claimed while the worker was told to go
            session.drain()

    async def _put_back(self, row: RunRow, note: str = "") -> None:
        until = self.clock.now() + self._put_offs.next(row.id)
        await self.asking.insist(
            lambda: self.store.release(row.no, epoch=row.epoch, until=until, inbox_seen=row.inbox_last, note=note),
            f"run {row.id}: release",
        )

    # -- news ----------------------------------------------------------------------------------------------------------

    def fetch_inbox(self, session: Session) -> None:
        """Reads the inbox of a session, together with others that ask at the same moment."""
        self._news.fetch(session)

    async def check_held(self, instance: str) -> None:
        """Compares what this worker holds with what the store says: drops lost runs and reads news."""
        await self.holdings.check(instance)

    def doubt(self) -> None:
        """The reply to a claim or commit was lost, so the store may list runs as ours that we do not know. Reconcile at
        the next check."""
        self.holdings.doubt()

    def knows(self, run: str) -> bool:
        """Whether it advances the run, or is about to."""
        return run in self.sessions or run in self.opening

    # -- asked by sessions ---------------------------------------------------------------------------------------------

    def release(self, session: Session, until: datetime | None, inbox_seen: int) -> None:
        """Releases a run without a turn. If a message arrives meanwhile, the run stays available."""
        self.spawn(self._release(session, until, inbox_seen))

    async def _release(self, session: Session, until: datetime | None, inbox_seen: int) -> None:
        session.released(await self._returned(session, until, inbox_seen))

    def move_places(self, session: Session, effect: MovePlaces) -> None:
        """Sends changes of places to the store, and tells the session which of its steps may begin."""
        self.spawn(self._move_places(session, effect))

    async def _move_places(self, session: Session, effect: MovePlaces) -> None:
        move = PlaceMove(no=session.no, epoch=session.epoch, **msgspec.structs.asdict(effect))
        what = f"run {session.run.id}: places under its limits"
        answer = await self.asking.insist(lambda: self.store.move_places(move), what)
        if len(answer.granted) < len(effect.asks):
            self.lines_hinted.set()
        if effect.asks:
            session.places(tuple(ask.step for ask in effect.asks), answer)

    def give_back(self, session: Session, until: datetime, inbox_seen: int) -> None:
        """Releases a run that its session has left."""
        self.spawn(self._give_back(session, until, inbox_seen))

    async def _give_back(self, session: Session, until: datetime, inbox_seen: int) -> None:
        await self._returned(session, until, inbox_seen)

    async def _returned(self, session: Session, until: datetime | None, inbox_seen: int) -> bool:
        return await self.asking.insist(
            lambda: self.store.release(session.no, epoch=session.epoch, until=until, inbox_seen=inbox_seen),
            f"run {session.run.id}: release",
        )

    def settle(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs the commit of a transaction, for which a closing engine waits."""
        task = asyncio.get_running_loop().create_task(work)
        self._settlements.add(task)
        task.add_done_callback(self._settlements.discard)

    def reload(self, session: Session, kept: Sequence[e.AnyEvent]) -> None:
        """A turn was refused: reads the journal again, then what is kept of it and what is unread."""
        self.spawn(self._reload(session, kept))

    async def _reload(self, session: Session, kept: Sequence[e.AnyEvent]) -> None:
        try:
            await self._rebuild(session, kept)
        except Exception as error:  # noqa: BLE001 the next worker to open it finds the same, and pauses the run with the reason
            session.unreadable(error)

    async def _rebuild(self, session: Session, kept: Sequence[e.AnyEvent]) -> None:
        close(self.telemetry, session.program, session.run.id)
        journals = await self.asking.journals({session.no: session.run.ordinal - 1})  # the last turn was refused
        loaded = await self.asking.load(session.no, session.run.id, journals[session.no])
        run = loaded.run
        program = await self.asking.replayed(Replay(loaded, self.registry, self.settings))
        seen = session.inbox_seen
        row = await self.asking.insist(lambda: self.store.get(run.id), f"run {run.id}: its row")
        inbox = await self.asking.insist(lambda: self.store.unread({session.no: seen}), f"run {run.id}: its inbox")
        last = None if row is None else row.inbox_last
        events, reached = opened(self.telemetry, run.id, inbox.get(session.no, []), seen, last)
        events = await self.asking.with_payloads(events)
        events = await self.asking.unopposed(session.no, session.epoch, program, events)
        session.open(run, program, events, reached, kept, seen)

    def begin_anew(self, session: Session, start: e.Continued, blobs: Mapping[str, bytes]) -> Program | None:
        """Starts the next pass after `continue_as` from memory, without reading earlier ones again."""
        if self.settings.paranoid:
            return None
        return begun_anew(session.run, start, blobs, self.registry, self.settings)

    def left(self, session: Session, *, is_warm: bool, is_over: bool) -> None:
        """A session ended: its program stays warm, or is closed."""
        run, program = session.machine.run, session.machine.program
        if self.sessions.get(run.id) is session:
            del self.sessions[run.id]
        is_kept = is_warm and not self.settings.paranoid and not self.is_draining
        spec = self.registry.of(run) if is_kept else None
        if spec is not None and spec.is_async and self.warm.is_worth_it(run, program, self.clock.now()):
            self.warm.keep(run, program)
        else:
            close(self.telemetry, program, run.id)
        self.snapshots.left(run, session.machine.no)
        if self.suspects.trials:
            self.suspects.left(session)
        if self.settings.paranoid and (is_warm or is_over):
            self.shadow.left(session)
        self.freed(is_over=is_over)

    def freed(self, *, is_over: bool = False) -> None:
        """A slot is free. `is_over`: because its run ended; otherwise a run may be due again, now or later."""
        self._freed(is_over)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs a task beside the sessions for as long as the engine lives."""
        task = asyncio.get_running_loop().create_task(work, context=self.bodies.context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- ending --------------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Makes every session, also one that is still being opened, release its run as soon as its steps end."""
        self.is_draining = True
        for session in list(self.sessions.values()):
            session.drain()

    async def close(self) -> None:
        """Drops everything in memory. Committed turns are safe; the others run again elsewhere."""
        self.is_draining = True
        await self.beginnings.close(SETTLE)
        await self.committer.settle(SETTLE)
        if self._settlements:
            await asyncio.wait(list(self._settlements), timeout=SETTLE)
        for session in list(self.sessions.values()):
            session.drop("the worker stopped", event="abandoned")
        self.warm.clear()
        await self.bodies.close()
        self.surroundings.outlets.close()
        self.wheel.close()
        self.suspects.close()
        for task in list(self._tasks):
            task.cancel()
