"""The tries of one call, one server after the other, until its patience is over. How to wait is the caller's: a thread
waits in one way, an event loop in another."""

from __future__ import annotations

import time
from typing import Final

from holdfast.adapters.leases.endpoints import Advice, unanswered
from holdfast.errors import StoreUnavailable

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.3
SHARES: Final = 3
"""Of several servers each gets a third of the patience: if two do not answer, the third is still asked."""


class Tries:
    """Of one call. Times are of the monotonic clock."""

    def __init__(self, patience: float, servers: int) -> None:
        self._patience = patience
        self._until = time.monotonic() + patience
        self._each = patience / min(servers, SHARES)
        self._pause = FIRST_PAUSE
        self._failures: dict[str, str] = {}

    @property
    def left(self) -> float:
        """Seconds until the patience is over; not above zero then."""
        return self._until - time.monotonic()

    @property
    def seconds(self) -> float:
        """For the next request: never nothing, so that one that has begun gets an answer."""
        return min(self._each, max(self.left, 0.01))

    def note(self, address: str, words: str) -> None:
        """The server there failed."""
        self._failures[address] = words

    def pause(self) -> float:
        """Seconds to wait before the next round, longer each time."""
        pause, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE)
        return min(pause, max(self.left, 0.0))

    def error(self, manager: str, advice: Advice) -> StoreUnavailable:
        """After all of them."""
        return unanswered(manager, self._patience, self._failures, advice)
