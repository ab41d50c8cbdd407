"""The pace at which a parent of many children reads their ends.

Each look at the inbox may cause a turn, and a parent's turn costs O(children). One look for all that ended in the last
moment keeps the work of a parent of ten thousand proportional to their number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from holdfast.turn.park import MANY

PACE, LONGEST = 0.000_05, 0.05
"""Seconds between two looks per awaited child, since the cost of a turn grows with them; and the maximum."""


class Pace(msgspec.Struct, eq=False, gc=False):
    """Looks at the inbox of one run: at once, or shortly after the last look."""

    _handle: asyncio.TimerHandle | None = None
    _looked_at: float = 0.0

    @property
    def is_waiting(self) -> bool:
        """Whether a look is due soon: the run stays until then."""
        return self._handle is not None

    def look(self, children: int, look: Callable[[], None]) -> None:
        """Something may be in the inbox of a run that waits for that many children."""
        if self._handle is not None:
            return
        if children <= MANY:
            look()
            return
        loop = asyncio.get_running_loop()
        due_at = self._looked_at + min(children * PACE, LONGEST)
        if due_at > loop.time():
            self._handle = loop.call_at(due_at, self._look_now, look)
        else:
            self._look_now(look)

    def taken(self, children: int) -> None:
        """The inbox was read with the claim: delays the next look."""
        if children > MANY:
            self._looked_at = asyncio.get_running_loop().time()

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _look_now(self, look: Callable[[], None]) -> None:
        self._handle = None
        self._looked_at = asyncio.get_running_loop().time()
        look()
