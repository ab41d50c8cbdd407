"""What the engine reads from the store, asked for until it answers.

Giving up would leave a run held by a live worker that forgot it; only a journal that does not hold is not asked again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from itertools import islice
from typing import TypeVar

from holdfast.core import events as e
from holdfast.core.program import Program
from holdfast.core.run import Run
from holdfast.core.specs import Settings, WorkflowSpec
from holdfast.engine.committer import FIRST_PAUSE, LONGEST_PAUSE
from holdfast.engine.history import Journal, Loaded, load, read_journals
from holdfast.engine.loading import blobs_wanted, inline, replayed
from holdfast.engine.registry import Registry
from holdfast.engine.surroundings import progress_by_run
from holdfast.errors import CorruptJournal, StoreError
from holdfast.ports.store import Store

LOG = logging.getLogger("holdfast.worker")
T = TypeVar("T")


class Asking:
    """Journals, payloads and progress of runs, for whoever opens them."""

    def __init__(self, store: Store, registry: Registry, settings: Settings) -> None:
        self.store = store
        self.registry = registry
        self.settings = settings

    async def insist(self, ask: Callable[[], Awaitable[T]], what: str) -> T:
        """Asks again until the store answers."""
        pause = FIRST_PAUSE
        while True:
            try:
                return await ask()
            except CorruptJournal:
                raise
            except StoreError as error:
                LOG.warning("%s not accepted, trying again in %.2f s: %s", what, pause, error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    async def journals(self, ends: Mapping[int, int]) -> dict[int, Journal]:
        """The journals of these runs, by number, each up to that row or further."""
        every = self.settings.snapshot_every
        what = f"reading the journals of {len(ends)} run(s)"
        return await self.insist(lambda: read_journals(self.store, ends, every), what)

    async def load(self, no: int, run_id: str, journal: Journal) -> Loaded:
        """The run of a journal, and the turns its program is rebuilt from."""
        return await self.insist(lambda: load(self.store, no, run_id, journal), f"run {run_id}: what was compacted")

    async def replayed(self, loaded: Loaded, spec: WorkflowSpec) -> Program:
        """The program of a run that stands where its journal ends."""
        turns = loaded.turns
        wanted = blobs_wanted(islice(turns, loaded.plain, None))
        blobs: Mapping[str, bytes] = await self.blobs(wanted) if wanted else {}
        return replayed(loaded.run.id, turns, blobs, spec, self.registry, self.settings)

    async def with_payloads(self, events: list[e.AnyEvent]) -> list[e.AnyEvent]:
        """The events with their large payloads in place."""
        wanted = {x.blob for x in events if isinstance(x, e.Carrier) and x.blob}
        if not wanted:
            return events
        blobs = await self.blobs(wanted)
        return [inline(event, blobs) for event in events]

    async def blobs(self, names: set[str]) -> Mapping[str, bytes]:
        """Several blobs."""
        return await self.insist(lambda: self.store.get_blobs(names), f"reading {len(names)} blob(s)")


class Notes:
    """What workers that went away had noted of steps that now begin anew: read once for all runs that are opened
    together, when the first of them needs it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._by_run: Mapping[str, Mapping[str, bytes]] | None = None

    async def give(self, run: Run) -> None:
        """Tells the steps of the run."""
        if self._by_run is None:
            self._by_run = progress_by_run(worker.progress for worker in await self._store.workers())
        for key, value in self._by_run.get(run.id, {}).items():
            if key in run.steps:
                run.steps[key].progress = value
