"""News of a store for all followers of runs in this process: one look serves them all, however many there are.

A look is one query: which runs have journal rows that no reader here has seen. It is asked after a write, and once a
second in any case; no reader is woken, and nothing else is asked, unless its run has changed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from holdfast.client.stream_tail import StreamTail
from holdfast.errors import StoreError
from holdfast.ports.parts import STREAMS
from holdfast.ports.runs import Filter, RunRow
from holdfast.ports.store import Store

T = TypeVar("T")

GLANCE = 0.05
"""Seconds between two checks for writes, which cost no query."""

LEAST = 0.05
"""Minimum seconds between two looks."""

PACE = 0.2
"""Minimum seconds between two pieces of news of all runs, and between two looks that are made for them alone."""

POLL = 1.0
BACKSTOP = 30.0
"""Seconds after which a follower looks again without news: its run may have been removed."""

MOST = 1000
"""Maximum journal rows of one look."""

HELD = 100
"""Maximum news that a slow reader may leave unread."""


class News(msgspec.Struct, frozen=True):
    """Runs that changed, as they are now, and the seq up to which this is complete. `is_cut`: some news was dropped for
    this reader, which must look at everything again."""

    seq: int
    rows: Sequence[RunRow]
    is_cut: bool = False
    made: dict[Any, asyncio.Future[Any]] = msgspec.field(default_factory=dict[Any, "asyncio.Future[Any]"])
    """What was made of it, for readers that want the same."""

    async def once(self, key: Any, make: Callable[[], Awaitable[T]]) -> T:
        """What `make` gives, made once for all readers with that key."""
        making = self.made.get(key)
        if making is None:
            making = self.made[key] = asyncio.ensure_future(make())
            making.add_done_callback(_take_error)
        await asyncio.wait([making])  # a reader that leaves does not end it; newer Pythons log what `shield` left
        answer: T = making.result()
        return answer


def _take_error(made: asyncio.Future[Any]) -> None:
    """Readers that still wait get the error from the future; without one, it is not needed."""
    if not made.cancelled():
        made.exception()


class RunNews:
    """News of one run: only that it changed."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def tell(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        """Waits for a change, or until the run should be checked again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(BACKSTOP):
                await self._event.wait()
        self._event.clear()


class StoreNews:
    """News of all runs, in their order. What a reader does not take in time is dropped."""

    def __init__(self, seq: int) -> None:
        self.seq: int = seq
        """The seq where it begins."""
        self._queue: asyncio.Queue[News] = asyncio.Queue(HELD)

    def tell(self, news: News) -> None:
        if self._queue.full():
            while not self._queue.empty():
                self._queue.get_nowait()
            news = News(news.seq, (), is_cut=True)
        self._queue.put_nowait(news)

    async def next(self) -> News:
        """Waits for the next piece."""
        return await self._queue.get()


class Feed:
    """The looks of one event loop, made only while there are followers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._runs: dict[str, set[RunNews]] = {}
        self._readers: set[StoreNews] = set()
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[int] | None = None
        self._seq = 0
        self._changed: dict[str, None] = {}
        self._told_at = -PACE
        self._is_hinted = self._has_parts = False
        self._streams: dict[tuple[str, str], StreamTail] = {}

    async def seq(self) -> int:
        """The seq from which its looks are complete."""
        if self._task is None or self._task.done():
            self._ready = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._look_on(self._ready), name="holdfast feed")
        ready = self._ready
        assert ready is not None
        await asyncio.shield(ready)
        return self._seq

    def add(self, run: str, news: RunNews) -> None:
        """Adds a follower of one run."""
        self._runs.setdefault(run, set()).add(news)

    def remove(self, run: str, news: RunNews) -> None:
        """Removes a follower of one run."""
        self._runs[run].discard(news)
        if not self._runs[run]:
            del self._runs[run]
        self._rest()

    def add_reader(self, reader: StoreNews) -> None:
        """Adds a follower of all runs."""
        self._readers.add(reader)

    def remove_reader(self, reader: StoreNews) -> None:
        """Removes a follower of all runs."""
        self._readers.discard(reader)
        self._rest()

    def add_stream(self, run: str, name: str) -> StreamTail:
        """Adds a reader of a stream."""
        tail = self._streams.get((run, name))
        if tail is None:
            tail = self._streams[run, name] = StreamTail(self._store, run, name)
        tail.readers += 1
        return tail

    def remove_stream(self, tail: StreamTail) -> None:
        """Removes a reader of a stream."""
        tail.readers -= 1
        if not tail.readers:
            del self._streams[tail.run, tail.name]
        self._rest()

    def _rest(self) -> None:
        if not self._runs and not self._readers and not self._streams and self._task is not None:
            self._task.cancel()
            self._task = None

    def _hinted(self, what: str) -> None:
        if what == STREAMS:
            self._has_parts = True
        else:
            self._is_hinted = True

    async def _look_on(self, ready: asyncio.Future[int]) -> None:
        unsubscribe = self._store.subscribe(self._hinted)
        try:
            try:
                seen = self._store.changes()
                self._seq = await self._store.final_seq()
                ready.set_result(self._seq)
            except BaseException as error:
                if not ready.done():
                    ready.set_exception(error)
                    ready.exception()  # a waiting reader has it; without one, it is not needed
                raise
            await self._look_whenever(seen)
        finally:
            unsubscribe()

    async def _look_whenever(self, seen: int) -> None:
        loop = asyncio.get_running_loop()
        looked = loop.time()
        while True:
            await asyncio.sleep(GLANCE)
            with suppress(StoreError):  # out of reach: the next look finds out
                changes = self._store.changes()
                self._is_hinted = self._is_hinted or changes != seen
                seen = changes
            past = loop.time() - looked
            is_needed = past >= POLL or self._is_hinted
            least = LEAST if self._runs or self._streams else PACE
            if past >= least and (is_needed or (self._has_parts and self._streams)):
                looked, self._is_hinted, self._has_parts = loop.time(), False, False
                with suppress(StoreError):
                    if is_needed:
                        await self._look()
                    if self._streams:
                        await self._look_at_streams()
            if self._changed and loop.time() - self._told_at >= PACE:
                with suppress(StoreError):
                    await self._tell_readers()
                    self._told_at = loop.time()

    async def _look(self) -> None:
        while found := await self._store.news(after_seq=self._seq, limit=MOST):
            changed = dict.fromkeys(run for _, run in found)
            if self._readers and len(self._changed) + len(changed) > MOST:
                await self._tell_readers()
            self._seq = found[-1][0]
            for run in changed:
                for news in self._runs.get(run, ()):
                    news.tell()
            for tail in self._streams.values():
                if tail.run in changed:  # the run may have ended, or an attempt of it
                    tail.tell()
            if self._readers:
                self._changed |= changed
            if len(found) < MOST:
                return

    async def _tell_readers(self) -> None:
        """One piece of news for all readers, so that what one makes of it serves the others."""
        seq, ids = self._seq, tuple(self._changed)
        page = await self._store.list(Filter(ids=ids), limit=len(ids))
        self._changed.clear()
        told = News(seq, page.runs)
        for reader in tuple(self._readers):
            reader.tell(told)

    async def _look_at_streams(self) -> None:
        ends = await self._store.stream_ends(list(self._streams))
        for key, tail in self._streams.items():
            end = ends.get(key, 0)
            if end != tail.end:
                tail.end = end
                tail.tell()


class Feeds:
    """The feeds of a client: one for each event loop that has followers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._feeds: WeakKeyDictionary[asyncio.AbstractEventLoop, Feed] = WeakKeyDictionary()

    def _here(self) -> Feed:
        loop = asyncio.get_running_loop()
        with self._lock:
            return self._feeds.setdefault(loop, Feed(self._store))

    @asynccontextmanager
    async def of_run(self, run: str) -> AsyncGenerator[RunNews]:
        """News of one run. Reading after entering, plus the news, misses nothing."""
        feed, news = self._here(), RunNews()
        feed.add(run, news)
        try:
            await feed.seq()
            yield news
        finally:
            feed.remove(run, news)

    @asynccontextmanager
    async def of_all(self) -> AsyncGenerator[StoreNews]:
        """News of all runs, beginning after its `seq`."""
        feed = self._here()
        reader = StoreNews(0)
        feed.add_reader(reader)
        try:
            reader.seq = await feed.seq()
            yield reader
        finally:
            feed.remove_reader(reader)

    @asynccontextmanager
    async def of_stream(self, run: str, name: str) -> AsyncGenerator[StreamTail]:
        """The tail of a stream. Reading after entering, plus the news, misses nothing."""
        feed = self._here()
        tail = feed.add_stream(run, name)
        try:
            await feed.seq()
            yield tail
        finally:
            feed.remove_stream(tail)
