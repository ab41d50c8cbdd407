"""One wheel of deadlines per worker: many wake-up times, one timer of the event loop.

A timer object for every body would halve the throughput; a heap entry costs almost nothing. A cancelled entry releases
its callback at once, and its place once most of the heap is cancelled: a step with a timeout of an hour may end in a
millisecond, and nothing of it stays for that hour.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from datetime import datetime

from holdfast.ports.clock import Clock
from holdfast.ports.facts import Trouble
from holdfast.ports.telemetry import Telemetry

FEW = 100
"""Cancelled places that the heap may have, however few others there are."""


class Due:
    """One future wake-up. Without a callback it was cancelled, or has come."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback


class Wheel:
    """Calls back at or after a time by the store's clock."""

    def __init__(self, clock: Clock, telemetry: Telemetry) -> None:
        self._clock = clock
        self._telemetry = telemetry
        self._heap: list[tuple[datetime, int, Due]] = []
        self._empty = 0
        self._numbers = itertools.count()
        self._handle: asyncio.TimerHandle | None = None
        self._armed_for: datetime | None = None

    def __len__(self) -> int:
        """Places in use, including cancelled ones."""
        return len(self._heap)

    def at(self, when: datetime, callback: Callable[[], None]) -> Due:
        """Calls back at that time, unless cancelled."""
        due = Due(callback)
        heapq.heappush(self._heap, (when, next(self._numbers), due))
        if self._armed_for is None or when < self._armed_for:
            self._arm()
        return due

    def take_back(self, due: Due) -> None:
        """Cancels a wake-up. Does nothing if it has come."""
        if due.callback is None:
            return
        due.callback = None
        self._empty += 1
        if self._empty > max(FEW, len(self._heap) // 2):
            self._heap = [entry for entry in self._heap if entry[2].callback is not None]
            heapq.heapify(self._heap)
            self._empty = 0

    def turn(self) -> int:
        """Calls everything that is due. Returns how many."""
        self._armed_for = None
        now = self._clock.now()
        found: list[Due] = []
        while self._heap and self._heap[0][0] <= now:
            found.append(heapq.heappop(self._heap)[2])
        called = 0
        for due in found:
            callback, due.callback = due.callback, None
            if callback is None:
                self._empty -= 1
                continue
            called += 1
            try:
                callback()
            except Exception as error:  # noqa: BLE001 one wake-up stops no other
                self._telemetry.tell(
                    Trouble("a wake-up broke; the others are called", error, is_known=False, is_bug=True)
                )
        self._arm()
        return called

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
        self._heap.clear()
        self._empty = 0
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class Alarm:
    """Calls back at the earliest of the times that were set since the last call."""

    __slots__ = ("_at", "_callback", "_due", "_wheel")

    def __init__(self, wheel: Wheel, callback: Callable[[], None]) -> None:
        self._wheel = wheel
        self._callback = callback
        self._at: datetime | None = None
        self._due: Due | None = None

    def set(self, when: datetime) -> None:
        """Adds a time. One later than the current time changes nothing."""
        if self._at is None or when < self._at:
            self.stop()
            self._at = when
            self._due = self._wheel.at(when, self._ring)

    def stop(self) -> None:
        """Does not call back until it is set again."""
        if self._due is not None:
            self._wheel.take_back(self._due)
            self._due = self._at = None

    def _ring(self) -> None:
        self._due = self._at = None
        self._callback()
