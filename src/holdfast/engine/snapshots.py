"""Snapshots and compaction of the runs a worker holds, beside them: they read the journal, never a session.

A snapshot is a function of rows, so whoever makes it makes the same one, and it needs no lease. Nothing here fails a
turn, and none waits but for the transaction of a compaction: what goes wrong is reported, and the run goes on without.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.core.run import Run
from holdfast.core.snapshot import Past, Snapshot, advance, is_due, stand_in, to_snapshot
from holdfast.core.specs import Settings
from holdfast.core.turn import Row, decode_rows
from holdfast.engine.history import Journal, read_journals, since_snapshot, stand_in_of
from holdfast.errors import CorruptJournal, HoldfastError
from holdfast.ports.store import Store

LOG = logging.getLogger("holdfast.worker")


class Snapshots:
    """Looks at runs as they grow."""

    def __init__(self, store: Store, settings: Settings, spawn: Callable[[Coroutine[Any, Any, None]], None]) -> None:
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
        """Makes a snapshot if the run has grown enough since the last; forgets those of a run that has ended. While one
        is under way the look waits for its end: what was written meanwhile is not forgotten, even if the run parks."""
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
        """The run is no longer held here: a last look at it."""
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
            reached = await take_snapshot(self._store, run, no, ordinal, self._settings)
            self._last[run] = max(reached, self._last.get(run, 0))
        except HoldfastError as error:
            self._last[run] = ordinal  # not again at every look
            LOG.warning("run %s: no snapshot made: %s", run, error, extra={"event": "snapshot failed", "run": run})
        finally:
            self._done(run)

    async def _forget(self, run: str, no: int) -> None:
        try:
            await self._store.drop_snapshots([no])
        except HoldfastError as error:
            LOG.warning("run %s: its snapshot stays until the run goes: %s", run, error)
        finally:
            self._done(run)


async def take_snapshot(store: Store, run: str, no: int, ordinal: int, settings: Settings) -> int:
    """Makes a snapshot of all rows but the newest, and compacts up to it if the journal has grown long; nothing if the
    one that is stored suffices. Returns the ordinal it reaches (0: there is none)."""
    journal = (await read_journals(store, {no: ordinal}, 1))[no]
    known = journal.snapshot.ordinal if journal.snapshot is not None else 0
    if not is_due(settings.snapshot_every, ordinal, known):
        return known
    made = await _made(store, run, no, journal)
    if made is None:
        return known
    past, blobs, last = made
    if not await store.put_snapshot(no, to_snapshot(past, last.ordinal, last.checksum), blobs):
        return 0
    after = settings.compact_after
    if after is not None:
        [first] = await store.history(run, limit=1) or [last]
        if last.ordinal - first.ordinal >= after:
            gone = await store.compact(no, stand_in(past, last))
            if gone:
                extra = {"event": "compacted", "run": run}
                LOG.info("run %s: %d journal rows compacted into one", run, gone + 1, extra=extra)
    return last.ordinal


async def compact(store: Store, run: str, no: int, ordinal: int) -> int:
    """Compacts all rows of a run but the newest; how many went. 0 too if somebody else was faster."""
    journal = (await read_journals(store, {no: ordinal}, 1))[no]
    made = await _made(store, run, no, journal)
    if made is None:
        snapshot = journal.snapshot
        if snapshot is None or len(journal.rows) < 2:
            return 0
        past, last = (await asyncio.to_thread(since_snapshot, run, journal.rows, snapshot))[0], journal.rows[0]
    else:
        past, blobs, last = made
        if not await store.put_snapshot(no, to_snapshot(past, last.ordinal, last.checksum), blobs):
            return 0
    return await store.compact(no, stand_in(past, last))


async def _made(store: Store, run: str, no: int, journal: Journal) -> tuple[Past, dict[str, bytes], Row] | None:
    """The past of all rows but the newest, its new blobs and its last row; None if a snapshot says as much already."""
    try:
        return await asyncio.to_thread(_advanced, run, journal.rows, journal.snapshot)
    except CorruptJournal as error:
        if journal.snapshot is None:
            raise
        LOG.warning("run %s: its snapshot is of no use and is dropped: %s", run, error)
        await store.drop_snapshots([no])
        return await asyncio.to_thread(_advanced, run, list((await store.read({no: 1}))[no]), None)


def _advanced(run: str, rows: list[Row], snapshot: Snapshot | None) -> tuple[Past, dict[str, bytes], Row] | None:
    rows = rows[:-1]
    if not rows or (snapshot is not None and rows[-1].ordinal <= snapshot.ordinal):
        return None
    base: Past | None
    if snapshot is not None:
        base, turns = since_snapshot(run, rows, snapshot)
    else:
        turns = decode_rows(rows)
        base = stand_in_of(turns)
        turns = turns if base is None else turns[1:]
    if not turns:
        return None
    return *advance(run, base, turns), rows[-1]
