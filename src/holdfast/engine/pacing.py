"""The pace at which the parent of many children hears of their ends.

Each look at the inbox may end in a turn, and a turn of a parent costs what its children are many. One look for all that
ended in the last moment keeps the work of a parent of ten thousand in proportion to them.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.engine.session import Session

PACE, LONGEST = 0.000_05, 0.05
"""Seconds between two looks, for each child that is waited for, as a turn costs; and at most."""

LINGER, LONG_LINGER = timedelta(milliseconds=50), timedelta(seconds=1)
"""How long a parent of running children stays before it parks; one of many rather waits, without a slot, than being
claimed again for every few ends."""

MANY = 16
"""Waits from which on a run is a parent of many. Fewer are told of each end at once."""


class Pace:
    """Looks at the inbox of one session: at once, or a moment after the last look."""

    __slots__ = ("_handle", "_looked_at", "_session", "_shown")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._handle: asyncio.TimerHandle | None = None
        self._looked_at = 0.0
        self._shown = 0

    @property
    def is_waiting(self) -> bool:
        """Whether a look is due in a moment: the run stays until then."""
        return self._handle is not None

    @property
    def linger(self) -> timedelta:
        """How long to stay when there is nothing to do."""
        return LONG_LINGER if len(self._session.run.waits) > MANY else LINGER

    @property
    def is_behind(self) -> bool:
        """Whether the store has shown that there is more in the inbox than was read."""
        return self._shown > self._session.inbox_seen

    def look(self, shown: int = 0) -> None:
        """Something may be in the inbox; certainly if a commit has shown a number that was not read."""
        self._shown = max(self._shown, shown)
        if self._handle is not None:
            return
        session = self._session
        children = len(session.run.waits)
        if children <= MANY:
            session.engine.fetch_inbox(session)
            return
        loop = asyncio.get_running_loop()
        due_at = self._looked_at + min(children * PACE, LONGEST)
        if due_at > loop.time():
            self._handle = loop.call_at(due_at, self._look_now)
        else:
            self._look_now()

    def taken(self) -> None:
        """What was in the inbox was taken otherwise, with the claim: the next look is a moment away."""
        if len(self._session.run.waits) > MANY:
            self._looked_at = asyncio.get_running_loop().time()

    def stop(self) -> None:
        """The session is over."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _look_now(self) -> None:
        self._handle = None
        self._looked_at = asyncio.get_running_loop().time()
        self._session.engine.fetch_inbox(self._session)
