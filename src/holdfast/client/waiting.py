"""Waiting for runs to end: hints of this process at once, changes of others soon, the poll as the truth."""

from __future__ import annotations

import asyncio
import threading
from typing import Self, TypeAlias

from holdfast.errors import StoreError
from holdfast.ports.store import Store

FIRST_LOOK, LONGEST_LOOK, POLL = 0.001, 0.02, 1.0
Entry: TypeAlias = tuple[asyncio.AbstractEventLoop, asyncio.Event]


class Waiting:
    """Wakes those who wait for news of a run. However many wait on an event loop, one look serves them all."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._events: dict[str, set[Entry]] = {}
        self._lookers: dict[asyncio.AbstractEventLoop, _Looker] = {}
        self._lock = threading.Lock()
        self._unsubscribe = store.subscribe(self._hinted)

    def close(self) -> None:
        """Stops listening."""
        self._unsubscribe()

    def _hinted(self, run: str) -> None:
        if run not in self._events:
            return
        with self._lock:
            waiting = list(self._events.get(run, ()))
        for loop, event in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    def listen(self, run: str) -> Listening:
        """News of one run, for the running loop."""
        return Listening(self, run)

    def add(self, run: str, entry: Entry) -> None:
        """Begins to listen."""
        loop, event = entry
        with self._lock:
            self._events.setdefault(run, set()).add(entry)
            looker = self._lookers.get(loop)
            if looker is None:
                looker = self._lookers[loop] = _Looker(loop, self._store)
        looker.add(event)

    def remove(self, run: str, entry: Entry) -> None:
        """Stops listening."""
        loop, event = entry
        with self._lock:
            entries = self._events.get(run)
            if entries is not None:
                entries.discard(entry)
                if not entries:
                    del self._events[run]
            if self._lookers[loop].remove(event):
                del self._lookers[loop]


class _Looker:
    """One per event loop on which somebody waits: looks for what others wrote, less often while all is quiet."""

    def __init__(self, loop: asyncio.AbstractEventLoop, store: Store) -> None:
        self._loop = loop
        self._store = store
        self._events: set[asyncio.Event] = set()
        self._seen = store.changes()
        self._pause = FIRST_LOOK
        self._handle = loop.call_later(FIRST_LOOK, self._look)

    def add(self, event: asyncio.Event) -> None:
        """Somebody waits."""
        self._events.add(event)

    def remove(self, event: asyncio.Event) -> bool:
        """Whether nobody waits any more."""
        self._events.discard(event)
        if self._events:
            return False
        self._handle.cancel()
        return True

    def _look(self) -> None:
        try:
            changes = self._store.changes()
        except StoreError:  # closed, or out of reach: those who wait ask the store themselves
            changes = self._seen
        if changes != self._seen:
            self._seen, self._pause = changes, FIRST_LOOK
            for event in self._events:
                event.set()
        else:
            self._pause = min(self._pause * 1.5, LONGEST_LOOK)
        self._handle = self._loop.call_later(self._pause, self._look)


class Listening:
    """`async with waiting.listen(run) as news: await news.next(timeout)`."""

    def __init__(self, waiting: Waiting, run: str) -> None:
        self._waiting = waiting
        self._run = run
        self._event = asyncio.Event()
        self._entry = (asyncio.get_running_loop(), self._event)

    async def __aenter__(self) -> Self:
        self._waiting.add(self._run, self._entry)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._waiting.remove(self._run, self._entry)

    async def next(self, left: float | None) -> None:
        """Waits for news, or for a moment at which looking again makes sense, at most `left` seconds."""
        try:
            async with asyncio.timeout(POLL if left is None else min(POLL, left)):
                await self._event.wait()
        except TimeoutError:
            return
        self._event.clear()
