"""From a store to a run and the turns its program is rebuilt from: a snapshot or stand-in, and the rows after it.

A snapshot that does not hold is reported, forgotten, and the journal read instead. A stand-in that does not hold is a
`CorruptJournal`: there is nothing else to read.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import msgspec

from holdfast.core import events as e
from holdfast.core.run import Run, fold
from holdfast.core.snapshot import Past, Snapshot, from_snapshot, past_of, unfolded_past, unpacked
from holdfast.core.turn import Row, Turn, decode_rows, is_compacted
from holdfast.errors import BlobNotFound, CorruptJournal
from holdfast.ports.store import Store

LOG = logging.getLogger("holdfast.worker")


class Loaded(msgspec.Struct):
    """A run, and all its turns that a replay needs. Those before `plain` name no blob at all."""

    run: Run
    turns: list[Turn]
    plain: int = 0


class Journal(msgspec.Struct):
    """What was read of one journal: its rows, from those that the snapshot covers on if there is one, and the ordinal
    that it reaches at least, as far as somebody knows."""

    rows: list[Row]
    snapshot: Snapshot | None = None
    end: int = 0


async def read_journals(store: Store, wanted: Mapping[int, int], long: int) -> dict[int, Journal]:
    """The journals of runs, by number; `wanted` says where each ends. Those with at least `long` rows (0: none) are
    looked up among the snapshots first."""
    lengthy = [no for no, ordinal in wanted.items() if 0 < long <= ordinal]
    snapshots: Mapping[int, Snapshot] = await store.snapshots(lengthy) if lengthy else {}
    first = {no: snapshots[no].ordinal if no in snapshots else 1 for no in wanted}
    rows = await store.read(first)
    return {no: Journal(rows.get(no, []), snapshots.get(no), end) for no, end in wanted.items()}


async def load(store: Store, no: int, run_id: str, journal: Journal) -> Loaded:
    """The run and its turns. A journal that ends too early is a `CorruptJournal`: every row that is left may hold, and
    nobody can go on from there."""
    loaded = await _load(store, no, run_id, journal)
    if loaded.run.ordinal < journal.end:
        found = f"ends with row {loaded.run.ordinal}" if loaded.run.ordinal else "is missing"
        raise CorruptJournal(f"run {run_id}: {journal.end} row(s) of its journal were written, and it {found}")
    return loaded


async def _load(store: Store, no: int, run_id: str, journal: Journal) -> Loaded:
    if journal.snapshot is not None:
        try:
            past, tail = since_snapshot(run_id, journal.rows, journal.snapshot)
            return await _loaded(store, run_id, past, tail)
        except (CorruptJournal, BlobNotFound) as error:
            LOG.warning(
                "run %s: its snapshot is of no use and is dropped, the journal is read instead: %s",
                run_id,
                error,
                extra={"event": "snapshot dropped", "run": run_id},
            )
            await store.drop_snapshots([no])
            journal = Journal(list((await store.read({no: 1}))[no]))
    turns = decode_rows(journal.rows)
    compacted = stand_in_of(turns)
    if compacted is None:
        return Loaded(fold(run_id, turns), turns)
    return await _loaded(store, run_id, compacted, turns[1:])


def since_snapshot(run_id: str, rows: Sequence[Row], snapshot: Snapshot) -> tuple[Past, list[Turn]]:
    """What a snapshot, or a stand-in that came after it, holds, and the turns since. The first row is the one that the
    snapshot covers last: only with the same checksum is it a snapshot of this journal."""
    if rows and is_compacted(rows[0]):
        turns = decode_rows(rows)
        past = stand_in_of(turns)
        assert past is not None
        return past, turns[1:]
    if not rows or (rows[0].ordinal, rows[0].checksum) != (snapshot.ordinal, snapshot.checksum):
        raise CorruptJournal(f"run {run_id}: its snapshot is of other rows than its journal")
    return from_snapshot(run_id, snapshot), decode_rows(rows[1:], previous=snapshot.checksum)


def stand_in_of(turns: Sequence[Turn]) -> Past | None:
    """What a compacted journal begins with."""
    first = turns[0].events[0] if turns and turns[0].events else None
    return past_of(first) if isinstance(first, e.Compacted) else None


async def _loaded(store: Store, run_id: str, past: Past, tail: list[Turn]) -> Loaded:
    run = unfolded_past(run_id, past)
    for turn in tail:
        run.apply(turn)
    return Loaded(run, *await _turns(store, run_id, past.segments, tail))


async def _turns(store: Store, run_id: str, segments: Sequence[e.Segment], tail: list[Turn]) -> tuple[list[Turn], int]:
    turns = unpacked(run_id, segments, await store.get_blobs([segment.blob for segment in segments]))
    plain = 0 if any(segment.names for segment in segments) else len(turns)
    turns += tail
    return turns, plain
