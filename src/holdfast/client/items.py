"""The items of a batch, read as they end: by index from their own runs, by completion from the batch's journal.

It holds only a page, and one bit for each item that was returned.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import msgspec

from holdfast.authoring.batch.batch_plan import CHUNKS, INDEX, Chunk, Plan, index_of, item_id
from holdfast.client.client_run import end_error
from holdfast.core import events as e
from holdfast.core.plurals import counted
from holdfast.core.redacted import is_redacted, redacted
from holdfast.core.specs import WorkflowSpec
from holdfast.core.status import Status
from holdfast.core.turn import decode_row
from holdfast.errors import InvalidInput, RunCancelled
from holdfast.ports.runs import RunRow
from holdfast.turn.payloads import inline
from holdfast.turn.source import read_ends

if TYPE_CHECKING:
    from holdfast.client.client import Client

R = TypeVar("R")

PAGE = 100
"""Items read together."""

ROWS = 10
"""Rows of a batch's journal read together: each may hold the ends of a hundred items."""


@dataclass(frozen=True, slots=True)
class Item(Generic[R]):
    """One input of a batch and its outcome. `result` is its value if it completed; `error` is its error if it did not:
    an exception its workflow declares, `RunFailed` or `RunCancelled`; `RunRedacted` if its result was redacted. `run`
    is the id of its own run."""

    index: int
    status: Status
    run: str
    result: R | None = None
    error: BaseException | None = None

    def value(self) -> R:
        """The result. Raises the error if the item did not complete."""
        if self.error is not None:
            raise self.error
        if self.status is not Status.COMPLETED:
            raise InvalidInput(f"item {self.index} is {self.status.value}: it has no result yet")
        return cast("R", self.result)


class Items(Generic[R]):
    """Reads the items of one batch."""

    def __init__(self, client: Client, batch: str, spec: WorkflowSpec | None, plan: Plan) -> None:
        self._client = client
        self._batch = batch
        self._spec = spec
        self._plan = plan

    async def by_index(self) -> AsyncIterator[Item[R]]:
        """Items in order of index: one that takes long makes those behind it wait, in the store."""
        with self._client.waiting.listen(self._batch) as news:
            async for indexes in self._pages():
                waiting = indexes
                while waiting:
                    is_over = await self._is_over()
                    found = await self._look(waiting, is_over=is_over)
                    for index in waiting:
                        item = found[index]
                        if not item.status.is_terminal:
                            break
                        yield item
                        waiting = waiting[1:]
                    if waiting:
                        await news.next(None)

    async def by_completion(self) -> AsyncIterator[Item[R]]:
        """Items in the order in which the batch recorded their ends."""
        store, seen, after = self._client.store, _Seen(), 0
        with self._client.waiting.listen(self._batch) as news:
            while True:
                is_over = await self._is_over()
                rows = await store.history(self._batch, after_seq=after, limit=ROWS)
                for row in rows:
                    after = row.seq
                    for event in decode_row(row).events:
                        if isinstance(event, e.Compacted):
                            async for item in self._ended():
                                if seen.add(item.index):
                                    yield item
                        elif isinstance(event, e.ChildEnded):
                            index = index_of(self._batch, event.run)
                            if index is not None and seen.add(index):
                                yield await self._item(index, event)
                if rows:
                    continue
                if is_over:
                    break
                await news.next(None)
        if seen.count == self._plan.total:
            return  # or every item would be read again, to find none that was left out
        async for item in self._ended(is_over=True):
            if seen.add(item.index):
                yield item

    async def one(self, index: int) -> Item[R]:
        async for indexes in self._pages():
            if index in indexes:
                return (await self._look([index], is_over=await self._is_over()))[index]
        raise InvalidInput(f"batch {self._batch} has no item {index!r}: it has {counted(self._plan.total, 'item')}")

    async def standing(self, after: int) -> AsyncIterator[Item[R]]:
        """Items by index, as they are now."""
        async for page in self._pages():
            indexes = [index for index in page if index > after]
            found = await self._look(indexes, is_over=await self._is_over()) if indexes else {}
            for item in found.values():
                yield item

    async def unfinished(self) -> AsyncIterator[tuple[int, str]]:
        """Index and arguments of every item that did not complete. The batch has ended."""
        async for chunk in self._chunks():
            for start in range(0, len(chunk.indexes), PAGE):
                indexes, args = chunk.indexes[start : start + PAGE], chunk.args[start : start + PAGE]
                rows = await self._rows(indexes)
                for index, row, given in zip(indexes, rows, args, strict=True):
                    if row is None or row.status is not Status.COMPLETED:
                        yield index, given

    async def _is_over(self) -> bool:
        row = await self._client.store.get(self._batch)
        return row is None or row.status.is_terminal

    async def _chunks(self) -> AsyncIterator[Chunk]:
        store = self._client.store
        for name in INDEX.decode(await store.get_blob(self._plan.index)):
            yield CHUNKS.decode(await store.get_blob(name))

    async def _pages(self) -> AsyncIterator[list[int]]:
        """Indexes, some at a time."""
        if not self._plan.retries:
            for start in range(0, self._plan.total, PAGE):
                yield list(range(start, min(start + PAGE, self._plan.total)))
            return
        async for chunk in self._chunks():
            for start in range(0, len(chunk.indexes), PAGE):
                yield chunk.indexes[start : start + PAGE]

    async def _ended(self, *, is_over: bool = False) -> AsyncIterator[Item[R]]:
        """The ended items, by index."""
        async for indexes in self._pages():
            for item in (await self._look(indexes, is_over=is_over)).values():
                if item.status.is_terminal:
                    yield item

    async def _rows(self, indexes: Iterable[int]) -> list[RunRow | None]:
        return await asyncio.gather(*(self._client.store.get(item_id(self._batch, index)) for index in indexes))

    async def _look(self, indexes: list[int], *, is_over: bool) -> dict[int, Item[R]]:
        """These items as they are now, with their outcomes. Without a run, an item was not started."""
        rows = dict(zip(indexes, await self._rows(indexes), strict=True))
        ends = await read_ends(self._client.store, [row for row in rows.values() if row is not None])
        found: dict[int, Item[R]] = {}
        for index, row in rows.items():
            if row is None:
                found[index] = self._never_started(index) if is_over else self._open(index, Status.PENDING)
            elif row.id not in ends:
                found[index] = self._open(index, row.status)
            else:
                found[index] = await self._item(index, ends[row.id])
        return found

    def _open(self, index: int, status: Status) -> Item[R]:
        return Item(index, status, item_id(self._batch, index))

    def _never_started(self, index: int) -> Item[R]:
        run = item_id(self._batch, index)
        error = RunCancelled(
            f"item {index} of batch {self._batch} was never started: the batch ended first", run_id=run
        )
        return Item(index, Status.CANCELLED, run, error=error)

    async def _item(self, index: int, end: e.ChildEnded) -> Item[R]:
        if end.blob:
            end = cast("e.ChildEnded", inline(end, await self._client.store.get_blobs([end.blob])))
        if end.status == "completed":
            if is_redacted(end.value):
                return Item(index, Status.COMPLETED, end.run, error=redacted(end.run, "its result"))
            value: Any = self._spec.result.decode(end.value) if self._spec else msgspec.json.decode(end.value)
            return Item(index, Status.COMPLETED, end.run, cast("R", value))
        return Item(index, Status(end.status), end.run, error=end_error(end, self._spec))


class _Seen:
    """A bit for each index."""

    def __init__(self) -> None:
        self._bits = bytearray()
        self.count = 0

    def add(self, index: int) -> bool:
        """Adds the index. Returns False if it was there before."""
        byte, bit = index >> 3, 1 << (index & 7)
        if byte >= len(self._bits):
            self._bits.extend(bytes(byte + 1 - len(self._bits)))
        is_new = not self._bits[byte] & bit
        self._bits[byte] |= bit
        self.count += is_new
        return is_new
