"""Snapshots, compaction, retention and collection over the tables of the memory store. The caller holds the lock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from holdfast.adapters.memory.blobs import keep_blobs, lose, refer
from holdfast.adapters.memory.creation import stored_row
from holdfast.adapters.memory.run_list import place
from holdfast.adapters.memory.tables import Source, Tables
from holdfast.adapters.memory.transaction import Transaction
from holdfast.core.checksums import emptied_checksum
from holdfast.core.instants import earlier
from holdfast.core.snapshot import Snapshot
from holdfast.core.status import Status
from holdfast.core.turn import Row, micros, segments_of
from holdfast.ports.blobs import BlobData, BlobKind
from holdfast.ports.contents import Contents, StoredMessage
from holdfast.ports.runs import RunRow
from holdfast.ports.upkeep import Collected, LargeRun, Part, Removed, Space

__all__ = [
    "collect",
    "compact",
    "drop_snapshots",
    "held_only_by",
    "put_snapshot",
    "removable",
    "remove_tree",
    "roots",
    "space",
    "tree_if_expired",
]

SNAPSHOT: Source = ("snapshot", 0)


def put_snapshot(
    write: Transaction, no: int, snapshot: Snapshot, blobs: Iterable[tuple[str, BlobData]], references: Iterable[str]
) -> bool:
    """See `ports.journal`."""
    tables = write.tables
    row, known = stored_row(write, no, snapshot.ordinal), tables.snapshots.get(no)
    if row is None or row.checksum != snapshot.checksum or (known is not None and known.ordinal > snapshot.ordinal):
        return False
    keep_blobs(write, blobs, "segment")
    tables.snapshots[no] = snapshot
    refer(write, no, SNAPSHOT, references)
    return True


def drop_snapshots(write: Transaction, runs: Iterable[int] | None) -> int:
    """See `ports.journal`."""
    tables = write.tables
    chosen = [no for no in (tables.snapshots if runs is None else runs) if no in tables.snapshots]
    for no in chosen:
        del tables.snapshots[no]
        refer(write, no, SNAPSHOT, ())
    return len(chosen)


def compact(write: Transaction, no: int, stand_in: Row, references: Iterable[str]) -> int:
    """See `ports.journal`."""
    tables = write.tables
    rows = tables.rows.get(no, [])
    row = stored_row(write, no, stand_in.ordinal)
    if row is None or row is rows[-1] or _identity(row) != _identity(stand_in):
        return 0
    if not all(name in tables.blobs for name in segments_of(stand_in)):
        return 0
    rest = [each for each in rows if each.ordinal > stand_in.ordinal]
    gone = len(rows) - len(rest) - 1
    tables.rows[no] = [msgspec.structs.replace(stand_in, seq=row.seq), *rest]
    for letter in tables.inbox[no].values():
        if 0 < letter.consumed_ordinal <= stand_in.ordinal and letter.body:
            known = emptied_checksum(tables.runs[no].id, letter.id, letter.kind, letter.body, letter.checksum)
            if known is not None:
                letter.body, letter.checksum = b"", known
                refer(write, no, ("message", letter.no), ())
    for row in rows:
        if row.ordinal <= stand_in.ordinal:
            refer(write, no, ("row", row.ordinal), references if row.ordinal == stand_in.ordinal else ())
    return gone


def _identity(row: Row) -> tuple[int, int, bytes]:
    return row.epoch, row.at, row.checksum


# -- retention ---------------------------------------------------------------------------------------------------------


def roots(tables: Tables, after: tuple[datetime, int] | None, limit: int) -> tuple[list[RunRow], bool]:
    """Roots that have ended, oldest first, and whether there are more."""
    found = sorted(
        (run for run in tables.runs.values() if run.root == run.id and run.status.is_terminal),
        key=place,
    )
    rest = [run for run in found if after is None or place(run) > after]
    return rest[:limit], len(rest) > limit


def tree_if_expired(tables: Tables, root: RunRow, now: datetime, keep: timedelta | None) -> list[RunRow]:
    """The runs of the tree if retention may take it, else none."""
    limit = tables.keep.get(root.no, keep)
    runs = _tree_if_over(tables, root)
    last = max((run.ended_at for run in runs if run.ended_at is not None), default=now)
    return runs if limit is not None and last <= earlier(now, limit) else []


def removable(tables: Tables, root: RunRow, now: datetime, keep: timedelta | None, *, is_asked: bool) -> list[RunRow]:
    """The runs of the tree if `remove` may take it, else none."""
    return _tree_if_over(tables, root) if is_asked else tree_if_expired(tables, root, now, keep)


def _tree_if_over(tables: Tables, root: RunRow) -> list[RunRow]:
    runs = [run for run in tables.runs.values() if run.root == root.id]
    return runs if root.root == root.id and all(run.ended_at is not None for run in runs) else []


def remove_tree(write: Transaction, runs: list[RunRow]) -> Removed:
    tables = write.tables
    rows = 0
    for run in runs:
        rows += len(tables.rows.pop(run.no))
        del tables.runs[run.no], tables.numbers[run.id], tables.inbox[run.no]
        kept = (tables.exposed, tables.answers, tables.adoptions, tables.snapshots, tables.keep)
        for table in (*kept, tables.streams, tables.spans):
            table.pop(run.no, None)
        tables.watches = [watch for watch in tables.watches if watch.no != run.no]
        tables.standings.pop(run.no, None)
        tables.uniques = {value: no for value, no in tables.uniques.items() if no != run.no}
        tables.gathering = {value: room for value, room in tables.gathering.items() if value in tables.uniques}
        lose(write, tables.referred(run.no))
        tables.references.pop(run.no, None)
    return Removed(1, len(runs), rows)


# -- blobs -------------------------------------------------------------------------------------------------------------


def collect(write: Transaction, grace: timedelta, limit: int, *, is_dry: bool) -> Collected:
    """Removes blobs that nothing refers to."""
    tables = write.tables
    held = {name for no in tables.references for name in tables.referred(no)}
    held |= {name for blob in tables.blobs.values() for name in blob.names}
    loose = [name for name, blob in tables.blobs.items() if name not in held and blob.at < earlier(write.now, grace)]
    if not is_dry:
        loose = loose[:limit]
    size = sum(tables.blobs[name].size for name in loose)
    if not is_dry:
        for name in loose:
            lose(write, tables.blobs.pop(name).names)
    return Collected(len(loose), size, () if is_dry else tuple(loose))


def held_only_by(tables: Tables, roots: Sequence[str]) -> Collected:
    """See `ports.upkeep`."""
    going = {no for root in roots for no in tables.tree(root)}
    held = {name for no in going for name in tables.referred(no)}
    held -= {name for no in tables.references if no not in going for name in tables.referred(no)}
    held -= {name for blob in tables.blobs.values() for name in blob.names}
    return Collected(len(held), sum(tables.blobs[name].size for name in held))


# -- verifying ---------------------------------------------------------------------------------------------------------


def contents(tables: Tables, no: int) -> Contents | None:
    """See `ports.upkeep`."""
    run = tables.runs.get(no)
    if run is None:
        return None
    letters = sorted(tables.inbox[no].values(), key=lambda letter: letter.no)
    is_open = run.status in {Status.PENDING, Status.RUNNING}
    return Contents(
        keep=tables.keep.get(no),
        is_offered=is_open and not run.instance and run.available_at is not None,
        messages=[StoredMessage(x.no, x.id, x.kind, x.body, x.consumed_ordinal, x.checksum) for x in letters],
        shown=[shown for _, shown in sorted(tables.exposed.get(no, {}).items())],
        watches=[(watch.topic, watch.key, micros(watch.since)) for watch in tables.watches if watch.no == no],
        adoptions=[(x.run, x.key, x.message) for x in tables.adoptions.get(no, [])],
        references=frozenset(tables.referred(no)),
        held={name: tables.blobs[name].names for name in tables.referred(no) if name in tables.blobs},
        snapshot=tables.snapshots.get(no),
        answers=[answer for _, answer in sorted(tables.answers.get(no, {}).items())],
        spans=[(name, span) for name, spans in sorted(tables.spans.get(no, {}).items()) for span in spans],
    )


# -- the report --------------------------------------------------------------------------------------------------------


def space(tables: Tables, largest: int) -> Space:
    """See `ports.upkeep`."""
    journals = {no: sum(len(row.body) for row in rows) for no, rows in tables.rows.items()}
    top = sorted(journals, key=lambda no: -journals[no])[:largest]
    letters = [letter for inbox in tables.inbox.values() for letter in inbox.values()]
    shown = [shown.value for values in tables.exposed.values() for shown in values.values()]
    flushed = [row for streams in tables.streams.values() for rows in streams.values() for row in rows]
    answers = [answer.value for given in tables.answers.values() for answer in given.values()]
    blobs = tables.blobs.values()
    kinds: list[BlobKind] = sorted({blob.kind for blob in blobs})
    parts = (
        Part("runs", len(tables.runs), sum(len(run.doing) for run in tables.runs.values())),
        Part("events", sum(map(len, tables.rows.values())), sum(journals.values())),
        Part("inbox", len(letters), sum(len(letter.body) for letter in letters)),
        Part("exposed", len(shown), sum(map(len, shown))),
        Part("streams", len(flushed), sum(len(row.packed) for row in flushed)),
        Part("answers", len(answers), sum(map(len, answers))),
        Part("snapshots", len(tables.snapshots), sum(len(each.body) for each in tables.snapshots.values())),
        Part("blobs", len(blobs), sum(blob.size for blob in blobs)),
    )
    return Space(
        total=sum(part.bytes for part in parts),
        free=0,
        tables=parts,
        blobs=tuple(_part(kind, [blob.size for blob in blobs if blob.kind == kind]) for kind in kinds),
        largest=tuple(_large(tables, no, journals[no]) for no in top),
    )


def _part(name: str, sizes: list[int]) -> Part:
    return Part(name, len(sizes), sum(sizes))


def _large(tables: Tables, no: int, size: int) -> LargeRun:
    run = tables.runs[no]
    return LargeRun(run.id, run.workflow, run.status.value, len(tables.rows[no]), size)
