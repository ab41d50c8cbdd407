"""Limits on steps: numbered places and rates that all workers of a store share, and the lines before them.

A *line* is a limit and one of its keys. A *place* belongs to a run, a step and an epoch: it counts only while the run
is held with that epoch and has not ended. So a holder that dies frees its places with its lease, one that is fenced
cannot keep any, and no claim, release or end has to know of them. A *waiter* stands in one line at a time, at the first
of its limits that refused it, and holds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from holdfast.core.limit import Demand, Rule

HORIZON = 1_000_000
"""Microseconds before a token is there at which its waiter is given that time to wake at."""

LAPSE = 500_000
"""Microseconds that a waiter that was woken has to come; then others are let past it."""

MOST_WOKEN = 64
"""Waiters of a line that one write wakes at most."""


class PlaceAsk(msgspec.Struct, frozen=True, gc=False):
    """An attempt of the step that wants to begin. `demands` are in the order of names, each once."""

    step: str
    demands: tuple[Demand, ...]


class Hold(msgspec.Struct, frozen=True, gc=False):
    """No attempt begins in that line before `until`."""

    name: str
    key: str
    until: datetime


class PlaceMove(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a holder says of its steps: `drops` have no place and wait no more, `holds` quiet lines, `asks` want to
    begin. `is_parked`: the run was given back, and its waiters may have been woken meanwhile."""

    no: int
    epoch: int
    drops: tuple[str, ...] = ()
    holds: tuple[Hold, ...] = ()
    asks: tuple[PlaceAsk, ...] = ()
    is_parked: bool = False


class PlaceAnswer(msgspec.Struct, frozen=True, gc=False):
    """Which of the asked steps may begin. The others stand in line, unless the run is no longer held."""

    granted: tuple[str, ...] = ()
    is_ours: bool = True


class StoredLimit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A limit as its row says. `body` is an encoded `core.limit.LimitState`; the rest is what the store decides by."""

    name: str
    revision: int
    rule: Rule
    is_paused: bool = False
    body: bytes = b""


class Line(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A line: places that count, waiters, and when the next attempt may begin (None: as soon as a place is free)."""

    name: str
    key: str
    held: int
    waiting: int
    next_at: datetime | None = None
    oldest: datetime | None = None
    """Since when the first of its waiters waits."""


class PlaceView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A place that a run has (`ahead` is None), or waits for: `ahead` others are before it."""

    run: str
    step: str
    name: str
    key: str
    ahead: int | None = None
    since: datetime | None = None
    about_at: datetime | None = None
    """When it may begin, if only the rate is in its way."""


class Limits(Protocol):
    """The limits of a store."""

    async def limit(self, name: str) -> StoredLimit | None:
        """The limit of that name."""
        ...

    async def limits(self, *, after: str = "", limit: int = 100) -> Sequence[StoredLimit]:
        """By name, those after `after`."""
        ...

    async def put_limit(self, limit: StoredLimit) -> bool:
        """Writes the limit, if its row has the revision `limit.revision` (0: if there is none), with the next revision.
        Its waiters are woken as the new rule allows. False: another process was quicker, and nothing was written."""
        ...

    async def move_places(self, move: PlaceMove) -> PlaceAnswer:
        """Drops, holds, then asks, in one transaction; wakes the waiters that find a place now, in their order.

        Each ask gets all its places and tokens or none. It is refused if one of its limits is paused, quiet, has no
        token or no place that is free, or if others wait before it; then it stands in that line from when it was first
        refused. A step that has its places already, with this epoch, has them still and takes no token again: the same
        move may be sent twice. Every place is of a run that is held with the epoch of the move: if it is not, nothing
        is granted.

        Waiters are woken by `available_at`: at most as many as there are places, those whose token comes within
        `HORIZON` for that time, the first of a line always. Runs that are paused are passed over and keep their turn;
        so are those that were woken and did not come within `LAPSE`.
        """
        ...

    async def tend_limits(self, *, limit: int = 100) -> bool:
        """Looks after lines that have waiters: forgets those of ended runs, lets others past those who do not come, and
        wakes whom it can. Whether there are any lines with waiters."""
        ...

    async def lines(self, name: str, *, after: str | None = None, limit: int = 100) -> Sequence[Line]:
        """The lines of a limit that have places or waiters, by key, those after `after`."""
        ...

    async def places_of(self, run: str) -> Sequence[PlaceView]:
        """The places that a run has or waits for."""
        ...
