"""What one server holds: its app, its gate, cached answers, and the open streams."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from holdfast.app import App
from holdfast.client.client import Client
from holdfast.web.access_gate import Gate

T = TypeVar("T")

KEPT = 5.0
"""Seconds for which an expensive answer is cached."""

MOST_KEPT = 1000


class Service:
    """One server, and the app behind it. The store is opened with the first request that needs it."""

    def __init__(self, app: App, gate: Gate, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.app = app
        self.gate = gate
        self.stopping: asyncio.Event = asyncio.Event()
        self.streams = 0
        self._clock = clock
        self._kept: dict[Any, tuple[float, Any]] = {}
        self._asking: dict[Any, asyncio.Future[Any]] = {}

    async def client(self) -> Client:
        return await self.app.client()

    def forget(self, key: Any) -> None:
        self._kept.pop(key, None)

    async def kept(self, key: Any, ask: Callable[[], Awaitable[T]], seconds: float = KEPT) -> T:
        """An answer, at most a few seconds old. Concurrent callers share one query."""
        known = self._kept.get(key)
        if known is not None and self._clock() - known[0] < seconds:
            answer: T = known[1]
            return answer
        running = self._asking.get(key)
        if running is None:
            running = self._asking[key] = asyncio.ensure_future(ask())
            running.add_done_callback(lambda _: self._asking.pop(key, None))
        answer = await asyncio.shield(running)
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[key] = (self._clock(), answer)
        return answer
