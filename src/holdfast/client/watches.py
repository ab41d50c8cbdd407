"""Watches a value that a run exposes: the value now, then the newest after each change.

One task per value and event loop serves all watchers: when the feed reports a change of the run, it reads the value
once. A slow reader gets the newest value, not those in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias
from weakref import WeakKeyDictionary

from holdfast.client.feed import Feeds
from holdfast.errors import RunNotFound
from holdfast.ports.store import Store

Shown: TypeAlias = tuple[bytes, str]
"""Raw JSON, and the name of a blob."""


class Watch:
    """One value of one run, on one event loop. It looks only while it has readers."""

    def __init__(self, store: Store, feeds: Feeds, run: str, name: str) -> None:
        self._store = store
        self._feeds = feeds
        self._run = run
        self._name = name
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.readers: int = 0
        self.number: int = 0
        """Grows with each change."""
        self.shown: Shown | None = None
        self.is_over: bool = False
        self.error: BaseException | None = None

    def join(self) -> None:
        self.readers += 1
        if self._task is None:
            self._task = asyncio.create_task(self._look_on(), name=f"holdfast watch {self._name}")

    def leave(self) -> bool:
        """Removes a reader. Returns True if none is left."""
        self.readers -= 1
        if self.readers or self._task is None:
            return not self.readers
        self._task.cancel()
        return True

    async def next(self, after: int) -> int:
        """Waits for a change after that number, or for the end."""
        while self.number == after and not self.is_over:
            await self._changed.wait()
        if self.error is not None:
            raise self.error
        return self.number

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _look_on(self) -> None:
        try:
            async with self._feeds.of_run(self._run) as news:
                while not self.is_over:
                    await self._look()
                    if not self.is_over:
                        await news.wait()
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 each reader raises it
            self.error, self.is_over = error, True
            self._tell()

    async def _look(self) -> None:
        row = await self._store.get(self._run)  # before the value: what the end brought is read
        shown = await self._store.exposed(self._run, self._name)
        if row is None:
            raise RunNotFound(f"no run {self._run!r} in {self._store.url}: it was deleted, or was never there")
        if shown is not None and shown != self.shown:
            self.shown = shown
            self.number += 1
        self.is_over = row.status.is_terminal
        if self.number or self.is_over:
            self._tell()


class Watches:
    """The watches of a client, by event loop, run and name."""

    def __init__(self, store: Store, feeds: Feeds) -> None:
        self._store = store
        self._feeds = feeds
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str], Watch]] = WeakKeyDictionary()

    @asynccontextmanager
    async def values(self, run: str, name: str) -> AsyncGenerator[Values]:
        """The values that the run exposes under that name, from now on, until it ends."""
        mine = self._by_loop.setdefault(asyncio.get_running_loop(), {})
        watch = mine.get((run, name))
        if watch is None or watch.is_over:
            watch = mine[run, name] = Watch(self._store, self._feeds, run, name)
        watch.join()
        try:
            yield Values(watch)
        finally:
            if watch.leave() and mine.get((run, name)) is watch:
                with suppress(KeyError):
                    del mine[run, name]


class Values(AsyncIterator[Shown]):
    """What one reader of a watch gets. It is not a generator, for the same reason as `stream_reader.Pages`."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._seen = 0

    async def __anext__(self) -> Shown:
        watch = self._watch
        while True:
            number = await watch.next(self._seen)
            if number != self._seen and watch.shown is not None:
                self._seen = number
                return watch.shown
            if watch.is_over:
                raise StopAsyncIteration
