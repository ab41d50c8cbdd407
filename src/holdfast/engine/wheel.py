"""One deadline wheel per worker: many wake-up times, one timer of the event loop.

A timer object for every body would halve the throughput; a heap entry costs almost nothing and is never cancelled,
only found stale.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
from collections.abc import Callable
from datetime import datetime

from holdfast.ports.clock import Clock

LOG = logging.getLogger("holdfast.worker")


class Wheel:
    """Calls back at or after a time by the store's clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[datetime, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._handle: asyncio.TimerHandle | None = None
        self._armed_for: datetime | None = None

    def at(self, when: datetime, callback: Callable[[], None]) -> None:
        """Calls back then. There is no cancel: what is no longer wanted does nothing when called."""
        heapq.heappush(self._heap, (when, next(self._numbers), callback))
        if self._armed_for is None or when < self._armed_for:
            self._arm()

    def turn(self) -> int:
        """Calls everything that is due; says how many."""
        self._armed_for = None
        now = self._clock.now()
        due: list[Callable[[], None]] = []
        while self._heap and self._heap[0][0] <= now:
            due.append(heapq.heappop(self._heap)[2])
        for callback in due:
            try:
                callback()
            except Exception:
                LOG.exception("a wake-up broke; the others go on")
        self._arm()
        return len(due)

    def _arm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if not self._heap:
            self._armed_for = None
            return
        when = self._heap[0][0]
        delay = max(0.0, (when - self._clock.now()).total_seconds())
        self._armed_for = when
        self._handle = asyncio.get_running_loop().call_later(min(delay, 3600.0), self.turn)

    def close(self) -> None:
        """Forgets everything."""
        self._heap.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class Alarm:
    """Calls back at the earliest of the times it was set to since it last did."""

    __slots__ = ("_at", "_callback", "_wheel")

    def __init__(self, wheel: Wheel, callback: Callable[[], None]) -> None:
        self._wheel = wheel
        self._callback = callback
        self._at: datetime | None = None

    def set(self, when: datetime) -> None:
        """Also then. A later time than the one it is set to changes nothing."""
        if self._at is None or when < self._at:
            self._at = when
            self._wheel.at(when, self._ring)

    def _ring(self) -> None:
        self._at = None
        self._callback()
