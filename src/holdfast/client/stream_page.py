"""A page of a stream as its readers see it: checked, split and decoded once, however many read it.

The page tells the state of the attempt that sent a part. A span says how it ended. Without a span, the attempt is open
as long as the run is open and has the epoch under which the part was sent: an attempt belongs to one epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.authoring.handle import Part, PartState
from holdfast.core.checksums import parts_checksum
from holdfast.core.payload import Shape
from holdfast.core.redacted import whole
from holdfast.errors import CorruptJournal
from holdfast.ports.parts import StoredParts, StreamPage, unpack

_SHARED = frozenset((str, int, float, bool, bytes, type(None)))
"""Types that readers may share because they are immutable."""


class RawPart(msgspec.Struct, frozen=True, gc=False):
    """A part as it is stored: a JSON text."""

    offset: int
    step: str
    attempt: int
    state: PartState
    value: msgspec.Raw


class SharedPage:
    """A page, with its decoded values."""

    def __init__(self, run: str, name: str, page: StreamPage) -> None:
        self._run = run
        self._name = name
        self.page = page
        self.states: list[PartState] = [state_of(row, page) for row in page.rows]
        self._raw: dict[int, list[RawPart]] = {}
        self._decoded: dict[tuple[int, int], list[Part[Any]]] = {}

    def raw(self, number: int) -> Sequence[RawPart]:
        """The parts of one of its rows."""
        found = self._raw.get(number)
        if found is None:
            found = self._raw[number] = self._parts(self.page.rows[number], self.states[number])
        return found

    def decoded(self, number: int, shape: Shape[Any]) -> Sequence[Part[Any]]:
        """The decoded parts of a row. Each reader gets its own copy of mutable values."""
        place = (number, id(shape))
        found = self._decoded.get(place)
        if found is None:
            decode = shape.decode
            whole(self.page.rows[number].packed, self._run, f"stream {self._name}")
            found = [Part(decode(x.value), x.step, x.attempt, x.offset, x.state) for x in self.raw(number)]
            if all(type(part.value) in _SHARED for part in found):
                self._decoded[place] = found
        return found

    def _parts(self, row: StoredParts, state: PartState) -> list[RawPart]:
        if row.checksum != parts_checksum(self._run, self._name, row.step, row.attempt, row.epoch, row.packed):
            raise CorruptJournal(
                f"run {self._run}: parts {row.first} to {row.end - 1} of stream {self._name!r} were changed or "
                f"damaged. To skip them, read with after={row.end - 1}."
            )
        values = enumerate(unpack(row.packed), row.first)
        return [RawPart(offset, row.step, row.attempt, state, value) for offset, value in values]


def state_of(row: StoredParts, page: StreamPage) -> PartState:
    """The state of the attempt that sent these parts. Parts of a workflow's own code are completed with their turn."""
    if not row.step:
        return "completed"
    for span in page.spans:
        if (span.step, span.attempt) == (row.step, row.attempt) and span.first <= row.first and row.end <= span.end:
            return "completed" if span.is_completed else "superseded"
    return "superseded" if page.is_ended or row.epoch < page.epoch else "open"
