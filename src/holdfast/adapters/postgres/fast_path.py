"""Fast path: with an idle queue, run the statement on the caller's thread, for at most 5 ms.

An event loop stands still for it, so it waits for milliseconds at most. What does not come by then goes through the
lane as well, whose functions recognise what was written meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from holdfast.adapters.postgres.link import Link, Owed

BRIEF = 0.005
"""Seconds for which an event loop may stand still: some round trips and a sync."""

PASSES = 20
"""Questions that go through the lane after one whose answer did not come in that time."""


class Lone:
    """The link of a lane, for a lone caller. Hold `turn` while using the link."""

    def __init__(self, link: Link) -> None:
        self.turn: threading.Lock = threading.Lock()
        self._link = link
        self._passes = 0

    def ask(self, statement: str, values: Sequence[Any]) -> list[Any] | Owed | None:
        """All rows; or who owes them, if they do not come at once; None if it was not asked."""
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
