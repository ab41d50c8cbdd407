"""The log of a standalone machine: its rows, and the fold over them. Pure.

A machine that runs without an app keeps its rows in anything with `append`, `load` and `clear`. Each row belongs to one
*visit* of a state. A resumed run enters its last state again under the same visit, so its completion replaces an
earlier completion of that visit: after several crashes, the state is undone once. After a rollback has begun, only
undos follow.

Invariants: sequences are dense from 0; the first row is an entry; after a `rollback` row only `undone` rows follow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from holdfast.errors import CorruptJournal

ENTRY = "entry"
"""A state was entered; `blob` holds its data. Written before its body runs."""
COMPLETION = "completion"
"""A state that can be undone completed; `blob` holds what it returned."""
CURSOR = "cursor"
"""How far a state has got: a step's cursor, a finished item, the end of a timer."""
ROLLBACK = "rollback"
"""The run failed and rolls back; `blob` holds the failure."""
UNDONE = "undone"
"""The completion of that visit was undone."""

KINDS = (ENTRY, COMPLETION, CURSOR, ROLLBACK, UNDONE)


class LogRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One row. `task` is the name of the state's function, empty for a split and for a final state."""

    sequence: int
    kind: str
    state: str
    task: str = ""
    visit: int = 0
    version: str = ""
    blob: bytes | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(LogRow)


def encode_log_row(row: LogRow) -> bytes:
    """A row on one line of JSON: for stores that keep text or bytes."""
    return _encoder.encode(row)


def decode_log_row(data: bytes | str, where: str = "") -> LogRow:
    """The row in that text. Raises `CorruptJournal` if it cannot be read."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CorruptJournal(
            f"a row of a machine's log does not read{f' ({where})' if where else ''}: {error}"
        ) from error


@dataclass(frozen=True, slots=True)
class Completed:
    """A visit whose state completed and can be undone."""

    visit: int
    state: str
    given: bytes
    left: bytes


@dataclass(slots=True)
class Past:
    """The fold of a log."""

    last: LogRow
    """The last entry: where a resumed run continues."""
    final: LogRow
    """The last row of all."""
    path: list[str] = field(default_factory=list[str])
    done: dict[int, Completed] = field(default_factory=dict[int, Completed])
    cursors: list[bytes] = field(default_factory=list[bytes])
    rollback: LogRow | None = None
    versions: set[str] = field(default_factory=set[str])

    @property
    def next_sequence(self) -> int:
        """The number of the next row."""
        return self.final.sequence + 1


def rehydrate(run_id: str, rows: Iterable[LogRow]) -> Past:
    """The fold of a log. It sorts the rows: a store that forgets to must not reverse a rollback."""
    ordered = sorted(rows, key=_sequence)
    past: Past | None = None
    for number, row in enumerate(ordered):
        if type(row) is not LogRow or row.sequence != number:
            raise _corrupt(run_id, number, f"expected row {number}, found {getattr(row, 'sequence', row)!r}")
        kind = row.kind
        if past is None:
            if kind != ENTRY:
                raise _corrupt(run_id, number, f"a log begins with an entry, not with {kind!r}")
            past = Past(row, row)
        past.final = row
        past.versions.add(row.version)
        if past.rollback is not None and kind != UNDONE:
            raise _corrupt(run_id, number, f"{kind!r} after the rollback had begun")
        if kind == ENTRY:
            _enter(past, row)
        elif kind == CURSOR:
            _expect(run_id, past, row)
            past.cursors.append(_blob(run_id, row))
        elif kind == COMPLETION:
            _expect(run_id, past, row)
            past.done[row.visit] = Completed(row.visit, row.state, past.last.blob or b"null", _blob(run_id, row))
        elif kind == ROLLBACK:
            past.rollback = row
        elif kind == UNDONE:
            if past.rollback is None or past.done.pop(row.visit, None) is None:
                raise _corrupt(run_id, number, f"visit {row.visit} of {row.state} was not there to be undone")
        else:
            raise _corrupt(run_id, number, f"kind {kind!r} is not known here: was it written by a newer version?")
    assert past is not None, "an empty log has no fold"
    return past


def _enter(past: Past, row: LogRow) -> None:
    is_again = bool(past.path) and row.visit == past.last.visit
    if not is_again:
        past.path.append(row.state)
        past.cursors = []
    past.last = row


def _expect(run_id: str, past: Past, row: LogRow) -> None:
    if (row.visit, row.state) != (past.last.visit, past.last.state):
        where = f"visit {past.last.visit} of {past.last.state}"
        raise _corrupt(run_id, row.sequence, f"{row.kind!r} of visit {row.visit} of {row.state} stands in {where}")


def _blob(run_id: str, row: LogRow) -> bytes:
    if row.blob is None:
        raise _corrupt(run_id, row.sequence, f"a {row.kind!r} row without its data")
    return row.blob


def _sequence(row: LogRow) -> int:
    return row.sequence if type(row) is LogRow else -1


def _corrupt(run_id: str, sequence: int, what: str) -> CorruptJournal:
    return CorruptJournal(f"log of run {run_id}, row {sequence}: {what}. Nothing was run; look at the store.")
