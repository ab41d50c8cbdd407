"""Store reads that retry until the store answers.

Giving up would leave a run held by a live worker that forgot it. Only a damaged journal is not read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from holdfast.core import events as e
from holdfast.core.plurals import counted
from holdfast.core.program import Program
from holdfast.core.run import Run
from holdfast.core.specs import Settings
from holdfast.engine.committer import FIRST_PAUSE, LONGEST_PAUSE
from holdfast.engine.surroundings import progress_by_run
from holdfast.errors import CorruptJournal, StoreError, UnknownWorkflow
from holdfast.ports.facts import BodyLeftBehind, Trouble
from holdfast.ports.store import Store
from holdfast.ports.telemetry import Telemetry
from holdfast.turn.history import Journal, Loaded
from holdfast.turn.payloads import inline
from holdfast.turn.replay import Missing, Parted, Replay, Replayed
from holdfast.turn.settlement import refusal
from holdfast.turn.source import load, read_journals, supply

T = TypeVar("T")


class Asking:
    """Reads journals, payloads and progress of the runs that are opened."""

    def __init__(self, store: Store, settings: Settings, telemetry: Telemetry) -> None:
        self.store = store
        self.settings = settings
        self._telemetry = telemetry

    async def insist(self, ask: Callable[[], Awaitable[T]], what: str) -> T:
        """Repeats the call until the store answers."""
        pause = FIRST_PAUSE
        while True:
            try:
                return await ask()
            except CorruptJournal:
                raise
            except StoreError as error:
                self._telemetry.tell(Trouble(f"{what} not accepted, trying again in {pause:.2f} s", error))
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    async def journals(self, ends: Mapping[int, int]) -> dict[int, Journal]:
        """The journals of these runs, by number, each at least up to that row."""
        every = self.settings.snapshot_every
        what = f"reading the journals of {counted(len(ends), 'run')}"
        return await self.insist(lambda: read_journals(self.store, ends, every), what)

    async def load(self, no: int, run_id: str, journal: Journal) -> Loaded:
        """The run of a journal, and the turns its program is rebuilt from."""
        return await self.insist(
            lambda: load(self.store, no, run_id, journal, tell=self._snapshot_dropped),
            f"run {run_id}: what was compacted",
        )

    def _snapshot_dropped(self, run: str, why: Exception) -> None:
        what = "its snapshot cannot be used and is dropped; the journal is read instead"
        self._telemetry.tell(Trouble(what, why, run=run))

    async def supply(self, replay: Replay) -> None:
        """Gives a replay the next blobs it needs."""
        await self.insist(lambda: supply(self.store, replay), f"reading {counted(len(replay.needs), 'blob')}")

    async def replayed(self, replay: Replay) -> Program:
        """The program of a run, replayed to where its journal ends. Raises `Diverged` if the code asks for something
        else."""
        while replay.needs:
            await self.supply(replay)
        try:
            result = replay.finish()
        finally:
            if replay.is_left_behind:
                self._telemetry.tell(BodyLeftBehind(replay.run.id))
        match result:
            case Replayed():
                return result.program
            case Parted():
                raise result.error
            case Missing():
                raise UnknownWorkflow(f"run {replay.run.id}: {result.note}")

    async def with_payloads(self, events: list[e.AnyEvent]) -> list[e.AnyEvent]:
        """The events with their large payloads in place."""
        wanted = {x.blob for x in events if isinstance(x, e.Carrier) and x.blob}
        if not wanted:
            return events
        blobs = await self.blobs(wanted)
        return [inline(event, blobs) for event in events]

    async def unopposed(self, no: int, epoch: int, program: Program, events: list[e.AnyEvent]) -> list[e.AnyEvent]:
        """The events without the updates that the program refuses. The refusals are durable when this returns; until
        then the updates count as unread."""
        if not any(type(event) is e.UpdateReceived for event in events):
            return events
        kept: list[e.AnyEvent] = []
        for event in events:
            why = program.objection(event) if type(event) is e.UpdateReceived else None
            if why is None or type(event) is not e.UpdateReceived or not await self._refused(no, epoch, event, why):
                kept.append(event)
        return kept

    async def _refused(self, no: int, epoch: int, event: e.UpdateReceived, why: str) -> bool:
        """Writes the refusal. Returns False if another worker has the run: everything written for it here is fenced."""
        answer = refusal(event.message, "refused", why)
        return await self.insist(lambda: self.store.refuse(no, answer, epoch=epoch), f"refusing update {event.name}")

    async def blobs(self, names: set[str]) -> Mapping[str, bytes]:
        return await self.insist(lambda: self.store.get_blobs(names), f"reading {counted(len(names), 'blob')}")


class Notes:
    """Progress that earlier workers noted for steps that now restart: read once for all runs that are opened together,
    when the first of them needs it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._by_run: Mapping[str, Mapping[str, bytes]] | None = None

    async def give(self, run: Run) -> None:
        """Copies the previous worker's progress onto the run's open steps."""
        if self._by_run is None:
            self._by_run = progress_by_run(worker.progress for worker in await self._store.workers())
        for key, value in self._by_run.get(run.id, {}).items():
            if key in run.steps:
                run.steps[key].progress = value
