"""Reading a stream: in order, live, from any offset, until the run has ended."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import msgspec

from holdfast.authoring.handle import Part, PartState
from holdfast.authoring.script.context import find_program
from holdfast.authoring.script.stream import Sent
from holdfast.client.stream_page import RawPart, SharedPage
from holdfast.errors import InvalidInput, NotAllowedHere, RunNotFound
from holdfast.ports.parts import StreamPage

if TYPE_CHECKING:
    from holdfast.client.access import Access
    from holdfast.client.stream_tail import StreamTail
    from holdfast.ports.runs import RunRow

T = TypeVar("T")
P = TypeVar("P", RawPart, Part[Any])

Only: TypeAlias = Literal["completed"] | None
Rows: TypeAlias = Callable[[SharedPage, int], Sequence[P]]
"""The parts in a row of a page, by its number."""


class StreamPart(msgspec.Struct, frozen=True):
    """A part as people may see it."""

    offset: int
    step: str
    attempt: int
    state: PartState
    value: Any


FEWEST, MOST = 16, 512
"""Rows per query: more while they are small."""

SMALL = 256 * 1024


def read(
    client: Access, run: str, stream: Sent[T], after: int | Part[Any] | None, only: Only
) -> AsyncGenerator[Part[T]]:
    """See `Run.read`."""
    return _live(client, _Place(run, checked(stream).name, place_after(after), only), _decoder(stream))


async def read_shown(
    client: Access, run: RunRow, name: str, after: int = -1, only: Only = None, *, is_live: bool = True
) -> AsyncGenerator[StreamPart]:
    """The parts after that offset, live or those that exist now, without what must not be shown of the run."""
    place = _Place(run.id, name, after, only)
    rows = SharedPage.raw
    async with _live_pages(client, place, rows) if is_live else aclosing(_pages_now(client, place, rows)) as pages:
        async for parts in pages:
            redaction = await client.hidden.of(run)
            for part in parts:
                value = redaction.value(msgspec.json.decode(part.value))
                yield StreamPart(part.offset, part.step, part.attempt, part.state, value)


async def read_now(
    client: Access, run: str, stream: Sent[T], after: int | Part[Any] | None, only: Only
) -> list[Part[T]]:
    """The parts that exist now. Does not wait."""
    place = _Place(run, checked(stream).name, place_after(after), only)
    return [part async for parts in _pages_now(client, place, _decoder(stream)) for part in parts]


def checked(stream: Sent[T]) -> Sent[T]:
    """The stream. Raises if the argument is something else."""
    given: object = stream
    if not isinstance(given, Sent):
        raise InvalidInput(f'run.read({stream!r}): a Stream is needed, such as Stream[str]("tokens")')
    return stream


def place_after(after: int | Part[Any] | None) -> int:
    """The last seen offset; -1 for none."""
    place = after.offset if isinstance(after, Part) else -1 if after is None else after
    if type(place) is not int or place < -1:
        raise InvalidInput(f"after={after!r}: give the offset, or the part, that was seen last")
    return place


class _Place:
    """The position of a reader."""

    def __init__(self, run: str, name: str, after: int, only: Only) -> None:
        if find_program() is not None:
            raise NotAllowedHere("run.read() in a workflow would not replay: read in a step, or return the value")
        if only not in (None, "completed"):
            raise InvalidInput(f'only={only!r}: give "completed", or leave it out')
        self.run = run
        self.name = name
        self._only = only
        self.after: int = after
        self.limit: int = FEWEST

    def take(self, shared: SharedPage, rows: Rows[P]) -> tuple[list[Sequence[P]], bool]:
        """The parts of a page for this reader, row by row, and whether there may be more to read at once."""
        found: list[Sequence[P]] = []
        page, after = shared.page, self.after
        for number, (row, state) in enumerate(zip(page.rows, shared.states, strict=True)):
            if self._only is not None and state == "open":
                return found, False
            if self._only is None or state == "completed":
                parts = rows(shared, number)
                found.append(parts if row.first > after else [part for part in parts if part.offset > after])
            self.after = row.end - 1
        self.limit = next_limit(page, self.limit)
        return found, bool(page.rows)


async def _live(client: Access, place: _Place, rows: Rows[P]) -> AsyncGenerator[P]:
    async with _live_pages(client, place, rows) as pages:
        async for parts in pages:
            for part in parts:
                yield part


@asynccontextmanager
async def _live_pages(client: Access, place: _Place, rows: Rows[P]) -> AsyncGenerator[Pages[P]]:
    async with client.feeds.of_stream(place.run, place.name) as tail:
        yield Pages(client, place, rows, tail)


class Pages(AsyncIterator[list[P]]):
    """The parts of each page that has any, as they come.

    It is not a generator: before Python 3.12, a generator that waits inside another one cannot be closed by the garbage
    collector, which is what ends readers whose event loop is gone."""

    def __init__(self, client: Access, place: _Place, rows: Rows[P], tail: StreamTail) -> None:
        self._client = client
        self._place = place
        self._rows: Rows[P] = rows
        self._tail = tail
        self._is_known = False
        self._is_over = False
        self._seen: int | None = None  # the version of the tail to wait after

    async def __anext__(self) -> list[P]:
        while not self._is_over:
            if self._seen is not None:
                await self._tail.wait(self._seen)
            version = self._tail.version
            shared = await self._tail.page(self._place.after, self._place.limit)
            if shared is None:
                if not self._is_known:
                    raise _missing(self._client, self._place.run)
                break  # it was removed
            self._is_known = True
            found, has_more = self._place.take(shared, self._rows)
            self._seen = None if has_more else version
            self._is_over = shared.page.is_ended and not has_more
            if parts := [part for row in found for part in row]:
                return parts
        raise StopAsyncIteration


async def _pages_now(client: Access, place: _Place, rows: Rows[P]) -> AsyncGenerator[list[P]]:
    has_more = True
    while has_more:
        page = await client.store.read_parts(place.run, place.name, after=place.after, limit=place.limit)
        if page is None:
            raise _missing(client, place.run)
        found, has_more = place.take(SharedPage(place.run, place.name, page), rows)
        if parts := [part for row in found for part in row]:
            yield parts


def _decoder(stream: Sent[Any]) -> Rows[Part[Any]]:
    shape = stream.shape
    return lambda shared, number: shared.decoded(number, shape)


def _missing(client: Access, run: str) -> RunNotFound:
    return RunNotFound(f"no run {run!r} in {client.store.url}")


def next_limit(page: StreamPage, limit: int) -> int:
    """How many rows to ask for next."""
    size = sum(len(row.packed) for row in page.rows)
    return min(limit * 2, MOST) if len(page.rows) == limit and size < SMALL else max(FEWEST, limit // 2)
