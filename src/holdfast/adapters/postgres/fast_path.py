"""Fast path: with an idle queue, run the statement on the caller's thread, for at most 5 ms.

The event loop is blocked meanwhile, hence the limit. If no answer arrives by then, the request also goes through the
lane, whose functions recognise what was already written.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from holdfast.adapters.postgres.link import Link, Owed

BRIEF = 0.005
"""Seconds for which an event loop may be blocked: a few round trips and a sync."""

PASSES = 20
"""How many requests use the lane after one that was not answered in time."""


class Lone:
    """The link of a lane, for a single caller. Hold `turn` while using the link."""

    def __init__(self, link: Link) -> None:
        self.turn: threading.Lock = threading.Lock()
        self._link = link
        self._passes = 0

    def ask(self, statement: str, values: Sequence[Any]) -> list[Any] | Owed | None:
        """Returns all rows; an `Owed` if they do not arrive at once; None if nothing was sent."""
        if self._passes > 0:
            self._passes -= 1
            return None
        if not self._link.takes_plain or not self.turn.acquire(blocking=False):
            return None
        try:
            rows = self._link.ask_briefly(statement, values, BRIEF)
        finally:
            self.turn.release()
        if isinstance(rows, Owed):
            self._passes = PASSES
        return rows
