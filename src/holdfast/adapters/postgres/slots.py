"""A limit on how many run at once, from any thread or event loop. First come, first served."""

from __future__ import annotations

import asyncio
import threading
from collections import deque


class Slots:
    """A semaphore: event loops wait for it, and any thread may release it."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._lock = threading.Lock()
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        """Waits for a free slot."""
        with self._lock:
            if self._free:
                self._free -= 1
                return
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # this caller held it already
                self.give_back()
            raise

    def give_back(self) -> None:
        """Releases a slot to the longest waiter."""
        with self._lock:
            while self._waiting:
                turn = self._waiting.popleft()
                try:
                    turn.get_loop().call_soon_threadsafe(self._grant, turn)
                except RuntimeError:  # its loop was closed: no waiter is left there
                    continue
                return
            self._free += 1

    def _grant(self, turn: asyncio.Future[None]) -> None:
        if turn.done():
            self.give_back()
        else:
            turn.set_result(None)
