"""Reading a stream: in order, live, from any offset, until the run has ended.

What became of the attempt that sent a part is judged by what its row says at that moment. A span says so. Without one,
the attempt is open as long as the run is open and has the epoch under which the part was sent: an attempt lives and
dies with one epoch.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import msgspec

from holdfast.authoring.handle import Part, PartState
from holdfast.authoring.script.context import find_program
from holdfast.authoring.script.functions import is_a
from holdfast.authoring.script.stream import Sent
from holdfast.core.checksums import parts_checksum
from holdfast.errors import CorruptJournal, InvalidInput, NotAllowedHere, RunNotFound
from holdfast.ports.parts import StoredParts, StreamPage, unpack

if TYPE_CHECKING:
    from holdfast.client.access import Access

T = TypeVar("T")

Only: TypeAlias = Literal["completed"] | None

FEWEST, MOST = 16, 512
"""Rows that are asked for at a time: more while they are small."""

SMALL = 256 * 1024


class RawPart(msgspec.Struct, frozen=True, gc=False):
    """A part as it is stored: a JSON text."""

    offset: int
    step: str
    attempt: int
    state: PartState
    value: msgspec.Raw


async def read(
    client: Access, run: str, stream: Sent[T], after: int | Part[Any] | None, only: Only
) -> AsyncIterator[Part[T]]:
    """See `Run.read`."""
    async for part in read_raw(client, run, checked(stream).name, place_after(after), only):
        yield _decoded(stream, part)


def checked(stream: Sent[T]) -> Sent[T]:
    """The stream, if it is one."""
    if not is_a(stream, Sent):
        raise InvalidInput(f'run.read({stream!r}): a Stream is needed, such as Stream[str]("tokens")')
    return stream


def place_after(after: int | Part[Any] | None) -> int:
    """The offset last seen; -1: nothing."""
    place = after.offset if isinstance(after, Part) else -1 if after is None else after
    if type(place) is not int or place < -1:
        raise InvalidInput(f"after={after!r}: give the offset, or the part, that was seen last")
    return place


class _Place:
    """How far a reader has got."""

    def __init__(self, run: str, name: str, after: int, only: Only) -> None:
        if find_program() is not None:
            raise NotAllowedHere("run.read() in a workflow would not replay: read in a step, or return the value")
        if only not in (None, "completed"):
            raise InvalidInput(f'only={only!r}: give "completed", or leave it out')
        self._run = run
        self._name = name
        self._only = only
        self.after = after
        self.limit = FEWEST

    def take(self, page: StreamPage) -> tuple[list[RawPart], bool]:
        """What the reader gets of a page, and whether there may be more to read at once."""
        found: list[RawPart] = []
        for row in page.rows:
            state = state_of(row, page)
            if self._only is not None and state == "open":
                return found, False
            if self._only is None or state == "completed":
                found += [x for x in _parts(self._run, self._name, row, state) if x.offset > self.after]
            self.after = row.end - 1
        self.limit = next_limit(page, self.limit)
        return found, bool(page.rows)


async def read_raw(client: Access, run: str, name: str, after: int = -1, only: Only = None) -> AsyncIterator[RawPart]:
    """The parts after that offset, live."""
    place, is_known = _Place(run, name, after, only), False
    async with client.feeds.of_stream(run, name) as tail:
        while True:
            version = tail.version
            page = await tail.page(place.after, place.limit)
            if page is None:
                if not is_known:
                    raise _missing(client, run)
                return  # it was removed
            is_known = True
            found, has_more = place.take(page)
            for part in found:
                yield part
            if has_more:
                continue
            if page.is_ended:
                return
            await tail.wait(version)


async def raw_now(client: Access, run: str, name: str, after: int = -1, only: Only = None) -> list[RawPart]:
    """The parts after that offset that are there. Does not wait."""
    place, has_more = _Place(run, name, after, only), True
    found: list[RawPart] = []
    while has_more:
        page = await client.store.read_parts(run, name, after=place.after, limit=place.limit)
        if page is None:
            raise _missing(client, run)
        more, has_more = place.take(page)
        found += more
    return found


async def read_now(
    client: Access, run: str, stream: Sent[T], after: int | Part[Any] | None, only: Only
) -> list[Part[T]]:
    """The same, decoded."""
    raw = await raw_now(client, run, checked(stream).name, place_after(after), only)
    return [_decoded(stream, part) for part in raw]


def _missing(client: Access, run: str) -> RunNotFound:
    return RunNotFound(f"no run {run!r} in {client.store.url}")


def _decoded(stream: Sent[T], part: RawPart) -> Part[T]:
    return Part(stream.shape.decode(part.value), part.step, part.attempt, part.offset, part.state)


def state_of(row: StoredParts, page: StreamPage) -> PartState:
    """What became of the attempt that sent these parts. What a workflow's own code sent is done with its turn."""
    if not row.step:
        return "completed"
    for span in page.spans:
        if (span.step, span.attempt) == (row.step, row.attempt) and span.first <= row.first and row.end <= span.end:
            return "completed" if span.is_completed else "superseded"
    return "superseded" if page.is_ended or row.epoch < page.epoch else "open"


def next_limit(page: StreamPage, limit: int) -> int:
    """How many rows to ask for next."""
    size = sum(len(row.packed) for row in page.rows)
    return min(limit * 2, MOST) if len(page.rows) == limit and size < SMALL else max(FEWEST, limit // 2)


def _parts(run: str, name: str, row: StoredParts, state: PartState) -> list[RawPart]:
    if row.checksum != parts_checksum(run, name, row.step, row.attempt, row.packed):
        raise CorruptJournal(
            f"run {run}: parts {row.first} to {row.end - 1} of stream {name!r} were changed or damaged. Read on after "
            f"them with after={row.end - 1}."
        )
    values = enumerate(unpack(row.packed), row.first)
    return [RawPart(offset, row.step, row.attempt, state, value) for offset, value in values]
