"""Snapshots and compaction: made from the rows of a journal alone, so every process makes the same ones.

Neither needs a lease. Nothing here fails a turn; the caller reports errors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from holdfast.core.snapshot import Past, Snapshot, advance, is_due, references_of_past, stand_in, to_snapshot
from holdfast.core.specs import Settings
from holdfast.core.turn import Row, decode_rows
from holdfast.errors import CorruptJournal
from holdfast.ports.facts import Fact, RunCompacted, Trouble
from holdfast.ports.store import Store
from holdfast.ports.telemetry import Tell
from holdfast.turn.history import Journal, since_snapshot, stand_in_of
from holdfast.turn.source import read_journals


def ignore(fact: Fact) -> None:
    """For a caller that reports errors itself."""


async def take_snapshot(store: Store, run: str, no: int, ordinal: int, settings: Settings, tell: Tell = ignore) -> int:
    """Makes a snapshot of all rows but the newest, and compacts up to it if the journal has grown long; does nothing if
    the stored one suffices. Returns the ordinal it reaches (0: none)."""
    journal = (await read_journals(store, {no: ordinal}, 1))[no]
    known = journal.snapshot.ordinal if journal.snapshot is not None else 0
    if not is_due(settings.snapshot_every, ordinal, known):
        return known
    made = await _made(store, run, no, journal, tell)
    if made is None:
        return known
    past, blobs, last = made
    references = references_of_past(past)
    if not await store.put_snapshot(no, to_snapshot(past, last.ordinal, last.checksum), blobs, references):
        return 0
    after = settings.compact_after
    if after is not None:
        [first] = await store.history(run, limit=1) or [last]
        if last.ordinal - first.ordinal >= after:
            gone = await store.compact(no, stand_in(past, last), references)
            if gone:
                tell(RunCompacted(run, gone + 1))
    return last.ordinal


async def compact(store: Store, run: str, no: int, ordinal: int, tell: Tell = ignore) -> int:
    """Compacts all rows of a run except the newest. Returns how many; 0 also if another process was faster."""
    journal = (await read_journals(store, {no: ordinal}, 1))[no]
    made = await _made(store, run, no, journal, tell)
    if made is None:
        snapshot = journal.snapshot
        if snapshot is None or len(journal.rows) < 2:
            return 0
        past, last = (await asyncio.to_thread(since_snapshot, run, journal.rows, snapshot))[0], journal.rows[0]
    else:
        past, blobs, last = made
        snapshot = to_snapshot(past, last.ordinal, last.checksum)
        if not await store.put_snapshot(no, snapshot, blobs, references_of_past(past)):
            return 0
    return await store.compact(no, stand_in(past, last), references_of_past(past))


async def _made(
    store: Store, run: str, no: int, journal: Journal, tell: Tell
) -> tuple[Past, dict[str, bytes], Row] | None:
    """The past of all rows but the newest, its new blobs and its last row; None if a snapshot already has it."""
    try:
        return await asyncio.to_thread(_advanced, run, journal.rows, journal.snapshot)
    except CorruptJournal as error:
        if journal.snapshot is None:
            raise
        tell(Trouble("its snapshot cannot be used and is dropped", error, run=run))
        await store.drop_snapshots([no])
        return await asyncio.to_thread(_advanced, run, list((await store.read({no: 1}))[no]), None)


def _advanced(run: str, rows: Sequence[Row], snapshot: Snapshot | None) -> tuple[Past, dict[str, bytes], Row] | None:
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
