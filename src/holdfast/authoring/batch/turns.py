"""Whose turn it is, breadth-first: the item that has done the fewest rounds, and of those the first.

The books of one chunk: who has a place, and who waits for one. What an item does meanwhile is said in `core.rounds`.
"""

from __future__ import annotations

import heapq


class Turns:
    """A fixed number of places. An item has one for a round: from when it is given until the item asks for the next,
    or ends."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: list[tuple[int, int]] = []
        self._new: dict[int, str] = {}
        self._rounds: dict[int, int] = {}

    def add(self, index: int, args: str) -> None:
        """An item that has not been started."""
        self._new[index] = args
        heapq.heappush(self._waiting, (0, index))

    def give(self) -> tuple[int, str | None] | None:
        """The next item, with its arguments if it is to be started; None if no place is free or no item waits."""
        if not self._free or not self._waiting:
            return None
        done, index = heapq.heappop(self._waiting)
        self._free -= 1
        self._rounds[index] = done + 1
        return index, self._new.pop(index, None)

    def ask(self, index: int) -> None:
        """It has done its round. One that has ended meanwhile, or is of another chunk, is passed over."""
        done = self._rounds.pop(index, None)
        if done is not None:
            self._free += 1
            heapq.heappush(self._waiting, (done, index))

    def end(self, index: int) -> None:
        """It has ended, with a place or without."""
        if self._rounds.pop(index, None) is not None:
            self._free += 1
        else:
            self._waiting = [waiting for waiting in self._waiting if waiting[1] != index]
            heapq.heapify(self._waiting)

    @property
    def is_over(self) -> bool:
        """No item waits, and none has a place."""
        return not self._waiting and not self._rounds

    def stop(self) -> None:
        """No item gets another turn."""
        self._waiting.clear()
