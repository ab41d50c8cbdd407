"""Streams of a run: parts in order, each at its offset, beside the journal.

A stream is a name within a run. Offsets start at 0, have no gaps and are never reused. What a step sends is appended as
it comes (`Streams.append`), many parts in one row; what a workflow's own code sends becomes visible with its turn
(`Commit.parts`). Both are fenced: only the holder of a run writes to its streams, and nothing is written after its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

import msgspec

from holdfast.core.checksums import parts_checksum
from holdfast.core.event import Span

STREAMS = "\x00streams"
"""Instead of a run's id, to listeners: parts were appended. No run has such an id."""


class TurnParts(msgspec.Struct, frozen=True, gc=False):
    """Parts that the code of a workflow sends with its turn. `attempt` counts the passes of its body. The store gives
    them their offsets: the next ones of the stream."""

    name: str
    attempt: int
    values: list[bytes]

    @property
    def packed(self) -> bytes:
        """The stored form: an array of JSON."""
        return pack(self.values)


class StepSpan(msgspec.Struct, frozen=True, gc=False):
    """The attempt of a step that sent these parts has ended with this turn."""

    step: str
    span: Span
    is_completed: bool


class Flush(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Parts of one attempt of a step, to append from offset `first` on, where the sender expects the end of the stream.
    `no` is the number of the run, `run` its id, `step` the key of the step."""

    no: int
    run: str
    epoch: int
    name: str
    first: int
    step: str
    attempt: int
    packed: bytes
    count: int

    @property
    def end(self) -> int:
        """The offset after its last part."""
        return self.first + self.count

    @property
    def checksum(self) -> bytes:
        """What is stored with it."""
        return parts_checksum(self.run, self.name, self.step, self.attempt, self.epoch, self.packed)


class Appended(msgspec.Struct, frozen=True, gc=False):
    """Durable, at the offsets that were asked for; now, or by an earlier try whose answer was lost."""


class Elsewhere(msgspec.Struct, frozen=True, gc=False):
    """The stream ends at another offset: nothing was written, and the same parts may be sent from there."""

    end: int


class Closed(msgspec.Struct, frozen=True, gc=False):
    """The run has ended, is gone, or belongs to another worker: nothing was written, and never will be."""


Appending: TypeAlias = Appended | Elsewhere | Closed


class StoredParts(msgspec.Struct, frozen=True, gc=False):
    """A row: consecutive parts. `step` is empty for parts of the workflow's own code."""

    first: int
    end: int
    step: str
    attempt: int
    epoch: int
    packed: bytes
    checksum: bytes


class StoredSpan(msgspec.Struct, frozen=True, gc=False):
    """The outcome of an attempt whose parts lie between these offsets."""

    step: str
    attempt: int
    first: int
    end: int
    is_completed: bool


class StreamPage(msgspec.Struct, frozen=True, gc=False):
    """Rows of a stream, the spans that overlap them, and the run's epoch and whether it has ended, at one moment."""

    rows: list[StoredParts]
    spans: list[StoredSpan]
    epoch: int
    is_ended: bool


class Streams(Protocol):
    """The streams of all runs."""

    async def append(self, batch: Sequence[Flush]) -> Sequence[Appending]:
        """Appends to any number of streams in one transaction; one answer each, in order.

        For each: `Closed` unless the run is open and has this epoch; `Elsewhere` unless its stream ends at `first`, and
        then for every later one of the same stream in this batch too, so that none overtakes another. The same parts
        sent again from the same offset, after an unknown outcome, are `Appended` and never written twice. Listeners
        are told `STREAMS`. No run is woken, and no row of a run changes.
        """
        ...

    async def read_parts(self, run: str, name: str, *, after: int = -1, limit: int = 100) -> StreamPage | None:
        """Rows that hold an offset greater than `after`, oldest first, at most `limit` of them; and every span that has
        an offset in common with them. None: there is no such run. A stream without parts is empty.

        What was shown is final: no row appears later below an offset that was shown.
        """
        ...

    async def stream_ends(self, streams: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], int]:
        """The offset after the last part, by run and name, of those streams that have one. One query for all."""
        ...

    async def streams_of(self, run: str) -> Mapping[str, int]:
        """The streams of a run by name, each with the offset after its last part."""
        ...


def pack(values: Sequence[bytes]) -> bytes:
    """Encoded parts as one array."""
    return b"[" + b",".join(values) + b"]"


def unpack(packed: bytes) -> list[msgspec.Raw]:
    """The parts of an array."""
    return _parts.decode(packed)


_parts: msgspec.json.Decoder[list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw])
