"""From rows to a run and the turns for rebuilding its program: a snapshot or stand-in, and the rows after it.

`Load` reads nothing. It says which blobs it needs, is given them, and continues. If a snapshot is invalid, the journal
from its first row is needed instead. An invalid stand-in raises `CorruptJournal`: there is nothing else to read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.core import events as e
from holdfast.core.fold import fold
from holdfast.core.run import Run
from holdfast.core.snapshot import Past, Snapshot, from_snapshot, past_of, unfolded_past, unpacked
from holdfast.core.turn import Row, Turn, decode_rows, is_compacted
from holdfast.errors import BlobNotFound, CorruptJournal
from holdfast.ports.runs import RunRow


class Loaded(msgspec.Struct):
    """A run, and all its turns that a replay needs. Turns before `plain` name no blobs."""

    run: Run
    turns: list[Turn]
    plain: int = 0


class Journal(msgspec.Struct):
    """What was read of one journal: its rows (from those after the snapshot on, if there is one), and the ordinal that
    it reaches at least, as far as known."""

    rows: Sequence[Row]
    snapshot: Snapshot | None = None
    end: int = 0


class Load:
    """The run and its turns, from what was read of its journal. `result` is set once nothing more is needed."""

    __slots__ = ("_end", "_is_from_snapshot", "_past", "_run_id", "_tail", "bad_snapshot", "needs", "result")

    def __init__(self, run_id: str, journal: Journal) -> None:
        self._run_id = run_id
        self._end = journal.end
        self._past: Past | None = None
        self._tail: list[Turn] = []
        self._is_from_snapshot: bool = journal.snapshot is not None
        self.needs: tuple[str, ...] = ()  # names of the blobs to give
        self.bad_snapshot: Exception | None = None  # why it cannot be used: give all the rows instead
        self.result: Loaded | None = None
        if journal.snapshot is None:
            self.give_rows(journal.rows)
            return
        try:
            self._follow(*since_snapshot(run_id, journal.rows, journal.snapshot))
        except CorruptJournal as error:
            self.bad_snapshot = error

    def give_rows(self, rows: Sequence[Row]) -> None:
        """The whole journal."""
        self.bad_snapshot = None
        self._is_from_snapshot = False
        turns = decode_rows(rows)
        past = stand_in_of(turns)
        if past is None:
            self._finish(Loaded(fold(self._run_id, turns), turns))
        else:
            self._follow(past, turns[1:])

    def give(self, blobs: Mapping[str, bytes] | BlobNotFound | CorruptJournal) -> None:
        """Takes the needed blobs, or why one is missing."""
        past, self._past, self.needs = self._past, None, ()
        assert past is not None, "nothing is needed"
        try:
            if isinstance(blobs, Exception):
                raise blobs
            loaded = self._loaded(past, blobs)
        except (CorruptJournal, BlobNotFound) as error:
            if not self._is_from_snapshot:
                raise
            self.bad_snapshot = error
        else:
            self._finish(loaded)

    def _follow(self, past: Past, tail: list[Turn]) -> None:
        """Continues once the segments of the past are here."""
        self._past, self._tail = past, tail
        self.needs = tuple(segment.blob for segment in past.segments)
        if not self.needs:
            self.give({})

    def _loaded(self, past: Past, blobs: Mapping[str, bytes]) -> Loaded:
        for name in (segment.blob for segment in past.segments if segment.blob not in blobs):
            raise BlobNotFound(f"run {self._run_id}: its journal names blob {name}, which is not there")
        run = unfolded_past(self._run_id, past)
        for turn in self._tail:
            run.apply(turn)
        turns = unpacked(self._run_id, past.segments, blobs)
        plain = 0 if any(segment.names for segment in past.segments) else len(turns)
        return Loaded(run, [*turns, *self._tail], plain)

    def _finish(self, loaded: Loaded) -> None:
        """Checks the end: a journal that ends too early is corrupt, even if every remaining row is valid."""
        reached = loaded.run.ordinal
        if reached < self._end:
            found = f"ends with row {reached}" if reached else "is missing"
            raise CorruptJournal(f"run {self._run_id}: {self._end} row(s) of its journal were written, and it {found}")
        self.result = loaded


def since_snapshot(run_id: str, rows: Sequence[Row], snapshot: Snapshot) -> tuple[Past, list[Turn]]:
    """The contents of a snapshot, or of a later stand-in, and the turns since. The first row is the last one that the
    snapshot covers: if its checksum differs, the snapshot is not of this journal."""
    if rows and is_compacted(rows[0]):
        turns = decode_rows(rows)
        past = stand_in_of(turns)
        assert past is not None
        return past, turns[1:]
    if not rows or (rows[0].ordinal, rows[0].checksum) != (snapshot.ordinal, snapshot.checksum):
        raise CorruptJournal(f"run {run_id}: its snapshot is of other rows than its journal")
    return from_snapshot(run_id, snapshot), decode_rows(rows[1:], previous=snapshot.checksum)


def stand_in_of(turns: Sequence[Turn]) -> Past | None:
    """The stand-in at the beginning of a compacted journal."""
    first = turns[0].events[0] if turns and turns[0].events else None
    return past_of(first) if isinstance(first, e.Compacted) else None


def run_of_row(row: RunRow, stored: Sequence[Row]) -> Run:
    """As much of a fold as a row gives: for pausing a run whose journal, stored up to there, cannot be read. What is
    written follows its last row, if it exists."""
    is_whole = bool(stored) and stored[-1].ordinal == row.next_ordinal - 1
    return Run(
        row.id,
        workflow=row.workflow,
        version=row.version,
        status=row.status,
        parent=row.parent,
        parent_key=row.parent_key,
        root=row.root,
        started_at=row.started_at,
        updated_at=row.updated_at,
        created_at=row.created_at,
        ordinal=row.next_ordinal - 1,
        epoch=row.epoch,
        checksum=stored[-1].checksum if is_whole else b"",
    )
