"""A journal row: one turn of a run, encoded, chained by checksum, and read back.

Invariants: ordinals of a run start at 1 and have no gaps; a row never changes; `checksum` covers the row and, through
the previous checksum, every row before it, back to the id of the run. (run, epoch, ordinal, checksum) is the identity
of the write. Compaction replaces the rows 1 to k by one row, a stand-in with a seal; the rows k+1 to n stay, with their
chain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any

import msgspec

from holdfast.core.events import OUTPUTS, AnyEvent, Compacted
from holdfast.core.instants import instant as instant  # noqa: PLC0414 - they belong to a row
from holdfast.core.instants import micros as micros  # noqa: PLC0414
from holdfast.core.upcast import UPCASTERS, unchanged
from holdfast.errors import CorruptJournal

FORMAT = 2
"""Version of the event format this code writes. Older rows are lifted by `core.upcast`, newer ones refused.

1 · 2: a chain begins with the run's id, and a checksum covers its parts with their lengths.
"""

GENESIS = bytes(16)
"""What the first row of a journal of format 1 is chained to; later formats begin with `genesis`."""

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError)
"""The exceptions of decoding bytes that are not events."""

_STAND_IN = b'[{"t":"compacted"'
_SEAL, _END = b',"seal":"', b"}]"
_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[tuple[AnyEvent, ...]] = msgspec.json.Decoder(tuple[AnyEvent, ...])


class Turn(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One row, decoded. (Snapshots pack its array form.)"""

    run: str
    ordinal: int
    epoch: int
    at: datetime
    events: tuple[AnyEvent, ...]
    checksum: bytes
    seq: int = 0

    @property
    def inputs(self) -> tuple[AnyEvent, ...]:
        return tuple(event for event in self.events if not isinstance(event, OUTPUTS))

    @property
    def outputs(self) -> tuple[AnyEvent, ...]:
        """The program's reaction."""
        return tuple(event for event in self.events if isinstance(event, OUTPUTS))


class Row(msgspec.Struct, frozen=True, gc=False):
    """One row as it is stored."""

    run: str
    ordinal: int
    epoch: int
    at: int
    format: int
    checksum: bytes
    body: bytes
    seq: int = 0


encode_turn: Callable[[tuple[AnyEvent, ...]], bytes] = _encoder.encode
"""The body of a row."""


def encode_events(events: Iterable[AnyEvent]) -> bytes:
    return encode_turn(tuple(events))


def genesis(run: str, format: int = FORMAT) -> bytes:
    """What the first row of a run is chained to: a journal found under another id is invalid."""
    return GENESIS if format < 2 else blake2b(run.encode(), digest_size=16).digest()


def checksum(previous: bytes, ordinal: int, epoch: int, at: int, body: bytes, *, format: int = FORMAT) -> bytes:
    """The chained checksum of a row: of its numbers, its body and its references, each of the last two with its length.
    (Explicit references have their place; no row of today has any.)"""
    if format < 2:
        text = b"%b%d:%d:%d:%d:%b" % (previous, ordinal, epoch, at, format, body)
    else:
        head = f"{ordinal}:{epoch}:{at}:{format}:{len(body)}:"
        text = b"".join((previous, head.encode(), body, b"0:"))
    return blake2b(text, digest_size=16).digest()


def decode_row(row: Row) -> Turn:
    """The turn in a row. Raises `CorruptJournal` for bytes that are not events of a known format."""
    try:
        body = row.body
        if is_other(row.format):
            body = _encoder.encode(lifted(msgspec.json.decode(body), row.format, f"run {row.run}: row {row.ordinal}"))
        return Turn(row.run, row.ordinal, row.epoch, instant(row.at), _decoder.decode(body), row.checksum, row.seq)
    except UNREADABLE as error:
        raise CorruptJournal(f"run {row.run}: row {row.ordinal} does not decode: {error}") from error


def decode_rows(rows: Sequence[Row], *, previous: bytes = b"") -> list[Turn]:
    """Decodes consecutive rows of one run and checks the chain; the first row follows `previous` (empty: it is the
    first of the run), or replaces itself and all the rows before it."""
    turns: list[Turn] = []
    if rows and is_compacted(rows[0]):
        turns.append(_unsealed(rows[0]))
        previous, expected, rows = rows[0].checksum, rows[0].ordinal + 1, rows[1:]
    else:
        expected = rows[0].ordinal if previous and rows else 1
        if rows and not previous:
            previous = genesis(rows[0].run, rows[0].format)
    for row in rows:
        if row.ordinal != expected:
            raise CorruptJournal(f"run {row.run}: row {expected} is missing, found {row.ordinal}")
        if checksum(previous, row.ordinal, row.epoch, row.at, row.body, format=row.format) != row.checksum:
            raise CorruptJournal(
                f"run {row.run}: the checksum of row {row.ordinal} does not match. The store was changed or damaged; "
                "restore it from a backup, or start the run again."
            )
        turns.append(decode_row(row))
        previous = row.checksum
        expected += 1
    return turns


def last_turn(run: str, rows: Sequence[Row]) -> Turn:
    """The last of the last two rows of a run; the one before it is needed to check it."""
    if len(rows) < 2:
        raise CorruptJournal(f"run {run}: the last rows of its journal are missing")
    return decode_rows(rows[-1:], previous=rows[-2].checksum)[0]


def is_compacted(row: Row) -> bool:
    """Whether the row replaces itself and all the rows before it."""
    return row.body.startswith(_STAND_IN)


def segments_of(stand_in: Row) -> list[str]:
    """The names of the blobs that hold the turns of a stand-in."""
    events = decode_row(stand_in).events
    named = (segment.blob for event in events if isinstance(event, Compacted) for segment in event.segments)
    return list(dict.fromkeys(named))


def sealed(replaced: Row, event: Compacted) -> Row:
    """The stand-in with this content, in the place of the row whose ordinal, epoch, time and checksum it keeps. The
    seal binds it to them, and the chain's checksum there covers every row it replaces. The seal covers the bytes as
    written, so it stays valid whatever format they are read with."""
    plain = msgspec.structs.replace(replaced, format=FORMAT, body=encode_events((event,)))
    return msgspec.structs.replace(plain, body=_with_seal(plain))


def _with_seal(plain: Row) -> bytes:
    previous = plain.checksum if plain.format < 2 else plain.checksum + genesis(plain.run)
    mark = checksum(previous, plain.ordinal, plain.epoch, plain.at, plain.body, format=plain.format)
    return plain.body.removesuffix(_END) + _SEAL + mark.hex().encode() + b'"' + _END


def _unsealed(row: Row) -> Turn:
    turn = decode_row(row)
    event = turn.events[0]
    plain = msgspec.structs.replace(row, body=row.body[: row.body.rfind(_SEAL)] + _END)
    if not isinstance(event, Compacted) or event.rows != row.ordinal or row.body != _with_seal(plain):
        raise CorruptJournal(
            f"run {row.run}: the seal of row {row.ordinal}, which stands for the compacted rows 1 to {row.ordinal}, "
            "does not match. The store was changed or damaged; restore it from a backup, or start the run again."
        )
    return turn


def is_other(format: int) -> bool:
    """Whether events of that format must be converted before they are read."""
    return format != FORMAT and (
        format > FORMAT or any(UPCASTERS.get(version) is not unchanged for version in range(format, FORMAT))
    )


def lifted(events: Any, format: int, where: str) -> Any:
    """Events of another format as plain JSON values, as today's code would have written them; payloads become plain
    values too, so a caller that needs their raw JSON encodes them again. `where` begins the error messages."""
    if format > FORMAT:
        raise CorruptJournal(
            f"{where} has event format {format}, this code reads up to {FORMAT}. "
            "A newer Holdfast wrote it: upgrade this worker; the run is left for one that can read it."
        )
    for version in range(format, FORMAT):
        lift = UPCASTERS.get(version)
        if lift is None:
            raise CorruptJournal(f"{where} has event format {version}, and this code cannot upgrade it")
        try:
            events = lift(events)
        except Exception as error:
            raise CorruptJournal(
                f"{where} cannot be upgraded from event format {version}: {type(error).__name__}: {error}"
            ) from error
    return events
