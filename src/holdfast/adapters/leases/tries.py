"""The tries of one call, one server after the other, until its patience is over. The caller does the waiting, since a
thread and an event loop wait differently."""

from __future__ import annotations

import time
from typing import Final

from holdfast.adapters.leases.endpoints import Advice, unanswered
from holdfast.errors import StoreUnavailable

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.3
SHARES: Final = 3
"""Share of the time limit that each of several servers gets: if two do not answer, the third is still asked."""


class Tries:
    """The tries of one call. Times are monotonic."""

    def __init__(self, patience: float, servers: int) -> None:
        self._patience = patience
        self._until = time.monotonic() + patience
        self._each = patience / min(servers, SHARES)
        self._pause = FIRST_PAUSE
        self._failures: dict[str, str] = {}

    @property
    def left(self) -> float:
        """Seconds until the call gives up; zero or less if it is time."""
        return self._until - time.monotonic()

    @property
    def seconds(self) -> float:
        """Timeout of the next request. Always above zero, so that a request that was begun can be answered."""
        return min(self._each, max(self.left, 0.01))

    def note(self, address: str, words: str) -> None:
        """Records that the server at that address failed. A failure after the end of the call's time says nothing about
        the server, so it replaces no earlier one."""
        if self.left > 0 or address not in self._failures:
            self._failures[address] = words

    def pause(self) -> float:
        """Seconds to wait before the next round, longer each time."""
        pause, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE)
        return min(pause, max(self.left, 0.0))

    def error(self, manager: str, advice: Advice) -> StoreUnavailable:
        """The error to raise when all tries have failed."""
        return unanswered(manager, self._patience, self._failures, advice)
