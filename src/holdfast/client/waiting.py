"""Waiting for runs to end: hints of this process at once, changes of others soon, the poll as the truth."""

from __future__ import annotations

import asyncio
import threading
from typing import Self

from holdfast.ports.store import Store

LOOK, POLL = 0.02, 1.0


class Waiting:
    """Wakes those who wait for news of a run."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._events: dict[str, set[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = {}
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

    def add(self, run: str, entry: tuple[asyncio.AbstractEventLoop, asyncio.Event]) -> None:
        """Begins to listen."""
        with self._lock:
            self._events.setdefault(run, set()).add(entry)

    def remove(self, run: str, entry: tuple[asyncio.AbstractEventLoop, asyncio.Event]) -> None:
        """Stops listening."""
        with self._lock:
            entries = self._events.get(run)
            if entries is not None:
                entries.discard(entry)
                if not entries:
                    del self._events[run]

    def changes(self) -> int:
        """Rises when another process wrote something."""
        return self._store.changes()


class Listening:
    """`async with waiting.listen(run) as news: await news.next(timeout)`."""

    def __init__(self, waiting: Waiting, run: str) -> None:
        self._waiting = waiting
        self._run = run
        self._event = asyncio.Event()
        self._changes = waiting.changes()
        self._entry = (asyncio.get_running_loop(), self._event)

    async def __aenter__(self) -> Self:
        self._waiting.add(self._run, self._entry)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._waiting.remove(self._run, self._entry)

    async def next(self, left: float | None) -> None:
        """Waits for news, or for a moment at which looking again makes sense, at most `left` seconds."""
        loop = asyncio.get_running_loop()
        until = loop.time() + (POLL if left is None else min(POLL, left))
        while not self._event.is_set():
            rest = until - loop.time()
            if rest <= 0:
                break
            try:
                async with asyncio.timeout(min(LOOK, rest)):
                    await self._event.wait()
            except TimeoutError:
                if self._waiting.changes() != self._changes:
                    break
        self._event.clear()
        self._changes = self._waiting.changes()
