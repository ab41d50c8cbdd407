"""The gate of a queue: how many of its waiting runs may begin now, and which. Pure.

Order of admission: the queue is not paused, its rate and its `at_once` leave room, then the shares in the order of
their virtual time, then priority within the share, then time. A run that has begun never comes here again.

Each share has a virtual time. Of those that have runs waiting the one with the least goes first, and each run it begins
moves it on by a stride: the heavier the share, the shorter (start-time fair queueing). The queue has reached a level:
the greatest time at which a run began. A share that was away comes back `CATCH_UP` strides below the level, or at its
own time if that is later: so it may catch up some turns that it did not use, and no more however long it was away. A
share with many runs waiting would gain nothing that it notices, and begins at the level.

`time` of a queue is the level less the lead: where a share that comes in line begins. A share that is away and whose
time is not above it has nothing that is worth remembering.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from typing import Generic, TypeVar

import msgspec

from holdfast.core.rate import allowance
from holdfast.core.shares import Share

T = TypeVar("T")

STRIDE = 1_000_000
"""How far a run moves a share of weight 1."""

CATCH_UP = 9
"""How many turns a share may catch up. With its own turn that makes ten: the least with which ten runs in five places
begin within twice the time that they take alone. Two places need three."""

LEAD = CATCH_UP * STRIDE
"""By how much a share may be below the level of its queue."""

MANY = 30
"""A share with more runs waiting does not catch up: it would make others wait, and its last run begins no sooner."""

PACE = STRIDE // 10_000
"""How far a run moves the level at least. So a share that never comes back is forgotten after 100,000 runs, and of
shares that come once the first to come is the first to begin. Up to 10,000 shares the order is as their weights say."""


class Gate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the store knows of a queue's rules. `interval` and `burst`: see `core.rate`; 0 is no rate."""

    is_paused: bool = False
    at_once: int | None = None
    per_worker: int | None = None
    interval: int = 0
    burst: int = 1
    weights: dict[str, float] = {}
    share_at_once: int | None = None
    frees_parked: bool = False

    @property
    def is_shut(self) -> bool:
        """Whether runs of the queue wait for admission at all; otherwise only those that name a share do."""
        return self != OPEN

    def stride(self, share: Share) -> int:
        """How far one run moves the share on."""
        return max(1, round(STRIDE / self.weights.get(share, 1)))


OPEN = Gate()


class Room(msgspec.Struct, frozen=True, gc=False):
    """How many runs may begin; and if the rate alone holds runs back, until when (microseconds)."""

    count: int
    next_at: int | None = None


def room(gate: Gate, limit: int, *, begun: int, held: int, until: int, now: int) -> Room:
    """What the gate lets through: at most `limit`. `begun`: runs of the queue that count; `held`: those that the
    claiming instance holds; `until`: see `core.rate`."""
    if gate.is_paused:
        return Room(0)
    places = [limit]
    if gate.at_once is not None:
        places.append(gate.at_once - begun)
    if gate.per_worker is not None:
        places.append(gate.per_worker - held)
    count = max(0, min(places))
    if not gate.interval or not count:
        return Room(count)
    allowed = allowance(gate.interval, gate.burst, until, now)
    return Room(min(count, allowed.count), None if allowed.count else allowed.next_at)


class Pick(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """A run that may begin: its share, and the virtual time of the share before and after it."""

    run: T
    share: Share
    start: int
    finish: int


def line(
    shares: Iterable[tuple[int, Share]],
    *,
    runs_of: Callable[[Share], Iterator[T]],
    places_of: Callable[[Share], int | None],
    has_many: Callable[[Share], bool],
    gate: Gate,
    time: int,
) -> Iterator[Pick[T]]:
    """Runs in the order in which they may begin. `shares`: virtual time and name, ascending, read as far as needed;
    `runs_of`: the waiting runs of a share in their order; `places_of`: how many more of it may begin (None: any);
    `has_many`: whether more than `MANY` of it wait; `time`: of the queue.

    A share below where it may begin keeps its place in line for one run: so no more shares are read than begin."""
    coming = iter(shares)
    following = next(coming, None)
    known: dict[Share, tuple[Iterator[T], int | None]] = {}
    least: dict[Share, int] = {}
    active: list[tuple[int, Share]] = []
    while active or following is not None:
        if following is not None and (not active or following <= active[0]):
            share = following[1]
            known[share] = (runs_of(share), places_of(share))
            heappush(active, following)
            following = next(coming, None)
            continue
        its, share = heappop(active)
        runs, places = known[share]
        if places is not None and places <= 0:
            continue
        run = next(runs, None)
        if run is None:
            continue
        if share not in least:
            least[share] = time + LEAD if its < time + LEAD and has_many(share) else time
        start = max(its, least[share])
        finish = start + gate.stride(share)
        known[share] = (runs, None if places is None else places - 1)
        heappush(active, (finish, share))
        yield Pick(run, share, start, finish)


def times_after(picks: Iterable[Pick[T]]) -> Mapping[Share, int]:
    """The virtual times of the shares that these runs moved."""
    return {pick.share: pick.finish for pick in picks}


def time_after(time: int, picks: Collection[Pick[T]]) -> int:
    """The time of the queue once these runs have begun."""
    return max(time + PACE * len(picks), max((pick.start for pick in picks), default=time) - LEAD)
