"""Whose turn it is, breadth-first: the item with the fewest rounds done, and among those the first.

Holds the places of one chunk and the items that wait for one. `core.rounds` says what an item does meanwhile.
"""

from __future__ import annotations

import heapq


class Turns:
    """A fixed number of places. An item has one for a round: from when it gets it until it asks for the next, or
    ends."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: list[tuple[int, int]] = []
        self._new: dict[int, str] = {}
        self._rounds: dict[int, int] = {}

    def add(self, index: int, args: str) -> None:
        """Adds an item that has not been started."""
        self._new[index] = args
        heapq.heappush(self._waiting, (0, index))

    def give(self) -> tuple[int, str | None] | None:
        """Returns the next item, with its arguments if it is to be started; None if no place is free or no item
        waits."""
        if not self._free or not self._waiting:
            return None
        done, index = heapq.heappop(self._waiting)
        self._free -= 1
        self._rounds[index] = done + 1
        return index, self._new.pop(index, None)

    def ask(self, index: int) -> None:
        """The item has done its round. An item that has ended meanwhile, or belongs to another chunk, is ignored."""
        done = self._rounds.pop(index, None)
        if done is not None:
            self._free += 1
            heapq.heappush(self._waiting, (done, index))

    def end(self, index: int) -> None:
        """The item has ended, with a place or without."""
        if self._rounds.pop(index, None) is not None:
            self._free += 1
        else:
            self._waiting = [waiting for waiting in self._waiting if waiting[1] != index]
            heapq.heapify(self._waiting)

    @property
    def is_over(self) -> bool:
        """Whether no item waits and none has a place."""
        return not self._waiting and not self._rounds

    def stop(self) -> None:
        """Gives no item another turn."""
        self._waiting.clear()
