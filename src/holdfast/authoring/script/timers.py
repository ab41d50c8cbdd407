"""The timers of one program and when they are due. The caller provides the time."""

from __future__ import annotations

import heapq
from datetime import datetime, timedelta

from holdfast.authoring.script.loop import Timer
from holdfast.core.instants import LATEST


class Timers:
    """Timers by key. The heap may hold entries that were dropped or set again; the dictionary decides."""

    __slots__ = ("_by_key", "_heap", "_made")

    def __init__(self) -> None:
        self._by_key: dict[str, tuple[datetime, int, Timer | None]] = {}
        self._heap: list[tuple[datetime, int, str]] = []
        self._made = 0

    def __contains__(self, key: str) -> bool:
        return key in self._by_key

    def set(self, key: str, until: datetime, timer: Timer | None = None) -> None:
        """Sets a timer of the program, or of asyncio (`timer`)."""
        self._made += 1
        self._by_key[key] = (until, self._made, timer)
        heapq.heappush(self._heap, (until, self._made, key))

    def drop(self, key: str) -> None:
        self._by_key.pop(key, None)

    def take(self, key: str) -> tuple[datetime, Timer | None] | None:
        """The timer that fires now; None if it was dropped before."""
        kept = self._by_key.pop(key, None)
        return None if kept is None else (kept[0], kept[2])

    def due_at(self, key: str) -> datetime | None:
        """When the timer is due; None if it was dropped."""
        kept = self._by_key.get(key)
        return None if kept is None else kept[0]

    def next_at(self) -> datetime | None:
        """When the earliest is due."""
        heap = self._heap
        while heap:
            due, number, key = heap[0]
            if self._is_live(number, key):
                return due
            heapq.heappop(heap)
        return None

    def due(self, now: datetime) -> list[str]:
        """The due timers in the order in which they fire: by time, then by order of creation."""
        heap = self._heap
        if not heap or heap[0][0] > now:  # asked every turn
            return []
        found: list[tuple[datetime, int, str]] = []
        while heap and heap[0][0] <= now:
            entry = heapq.heappop(heap)
            if self._is_live(entry[1], entry[2]):
                found.append(entry)
        for entry in found:
            heapq.heappush(heap, entry)
        return [key for _, _, key in found]

    def _is_live(self, number: int, key: str) -> bool:
        kept = self._by_key.get(key)
        return kept is not None and kept[1] == number


def later(at: datetime, seconds: float) -> datetime:
    """The time that much later, but never past the end of the calendar, which never comes."""
    return at + timedelta(seconds=seconds) if seconds < (LATEST - at).total_seconds() else LATEST
