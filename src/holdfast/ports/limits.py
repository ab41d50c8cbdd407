"""Limits on steps: numbered places and rates that all workers of a store share, and the lines of waiting steps.

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
"""Microseconds before a token is available at which its waiter gets its wake-up time."""

LAPSE = 500_000
"""Microseconds that a woken waiter has to come; after that, others may pass it."""

MOST_WOKEN = 64
"""Maximum waiters of a line that one write wakes."""


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
    """The steps that may begin. The others wait in line, unless the run is no longer held."""

    granted: tuple[str, ...] = ()
    is_ours: bool = True


class StoredLimit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A limit in its row. `body` is an encoded `core.limit.LimitState`; the store decides by the other columns."""

    name: str
    revision: int
    rule: Rule
    is_paused: bool = False
    body: bytes = b""


class Line(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A line: taken places, waiters, and when the next attempt may begin (None: as soon as a place is free)."""

    name: str
    key: str
    held: int
    waiting: int
    next_at: datetime | None = None
    oldest: datetime | None = None
    """Since when its first waiter waits."""


class PlaceView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A place that a run has (`ahead` is None), or waits for: `ahead` others are before it."""

    run: str
    step: str
    name: str
    key: str
    ahead: int | None = None
    since: datetime | None = None
    about_at: datetime | None = None
    """When it may begin, if only the rate delays it."""


class BusyLine(msgspec.Struct, frozen=True, gc=False):
    """A line, and the first of its places that are taken: by which run, for which step."""

    line: Line
    places: tuple[PlaceView, ...] = ()


class Limits(Protocol):
    """The limits of a store."""

    async def limit(self, name: str) -> StoredLimit | None:
        """The limit of that name."""
        ...

    async def limits(self, *, after: str = "", limit: int = 100) -> Sequence[StoredLimit]:
        """The limits after that name, by name."""
        ...

    async def put_limit(self, limit: StoredLimit) -> bool:
        """Writes the limit, if its row has the revision `limit.revision` (0: if there is none), with the next revision.
        Its waiters are woken as the new rule allows. Returns False, having written nothing, if another process was
        faster."""
        ...

    async def move_places(self, move: PlaceMove) -> PlaceAnswer:
        """Drops, holds, then asks, in one transaction; wakes the waiters that find a place now, in their order.

        Each ask gets all its places and tokens or none. It is refused if one of its limits is paused, quiet, has no
        token or no place that is free, or if others wait before it; then it stands in that line from when it was first
        refused. Of a rate alone it gets a token before others once more than half of the burst has gathered: those for
        whom it was are late. When one joins a line, those in it that were woken come before it in the order of claims,
        by the time of their start. A step that has its places already, with this epoch, has them still and takes no
        token again: the same move may be sent twice. Every place is of a run that is held with the epoch of the move:
        if it is not, nothing is granted.

        Waiters are woken by `available_at`: at most as many as there are places, those whose token comes within
        `HORIZON` for that time, the first of a line always. Runs that are paused are passed over and keep their turn;
        so are those that were woken and did not come within `LAPSE`.
        """
        ...

    async def tend_limits(self, *, limit: int = 100) -> bool:
        """Tends lines that have waiters: removes waiters of ended runs, lets others pass those that do not come, and
        wakes those that can begin. Returns whether any line has waiters."""
        ...

    async def lines(self, name: str, *, after: str | None = None, limit: int = 100) -> Sequence[Line]:
        """The lines of a limit that have places or waiters, by key, those after `after`."""
        ...

    async def busiest(self, name: str, *, limit: int = 20, places: int = 10) -> Sequence[BusyLine]:
        """The lines of a limit with most waiters, then most places, then by key; of each line the places of its lowest
        numbers that count, at most `places`. Only reads."""
        ...

    async def places_of(self, run: str) -> Sequence[PlaceView]:
        """The places that a run has or waits for."""
        ...
