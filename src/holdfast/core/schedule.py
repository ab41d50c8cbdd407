"""A schedule as it is stored, and its rules: which slots start a run now, and when to look again.

Nothing here reads a clock or a store. `advance` is given the time of the store and which of the schedule's runs are
still open, and says what to start and what the schedule is afterwards. The store writes both in one transaction, fenced
by the schedule's revision: however many workers decide, and wherever one of them dies, each slot is decided once.

The cursor is the last slot that was decided. Everything up to it is over; the rest is still to come.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias

import msgspec

from holdfast.core.instants import earlier, later
from holdfast.core.timetable import Timetable

Overlap: TypeAlias = Literal["skip", "buffer_one", "buffer_all", "cancel", "kill", "allow"]
Missed: TypeAlias = Literal["last", "all", "none"]
Fate: TypeAlias = Literal["started", "buffered", "skipped"]

ON_TIME = timedelta(seconds=30)
"""A slot that is decided within this time is not late, whatever `missed` says."""

MOST_SLOTS = 500
"""Maximum slots of one pass; a schedule with more is due again at once."""

MOST_STARTS = 50
"""Maximum runs that one pass starts."""

MOST_BUFFERED = 1000
FIRST_LOOK, LONGEST_LOOK = timedelta(seconds=5), timedelta(minutes=5)
"""How soon any worker checks whether the run before a buffered slot has ended: first and maximum, doubling. The worker
that buffered it checks more often, and is told of the end if it happens there."""

RIVALS_LOOK = timedelta(minutes=1)
"""How soon any worker checks which of several declarations applies."""


class Work(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a slot starts: a workflow of one version with its arguments, complete, so that every worker can start it."""

    workflow: str
    version: str = ""
    code: str = ""
    style: str = ""
    queue: str = "default"
    keep: timedelta | None = None
    deadline: timedelta | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")
    flow: bytes = b""
    """The definition of a flow, which is stored with each of its runs."""


class Definition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A schedule as its author defines it."""

    timetable: Timetable
    work: Work
    overlap: Overlap = "skip"
    missed: Missed = "last"
    catch_up: timedelta = timedelta(hours=1)
    times: int | None = None

    @property
    def digest(self) -> str:
        """The same for the same definition."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:32]


class Declared(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A definition this store has seen. `number` counts definitions in the order of first appearance. `instances`
    are the workers that declare it. `definition` is forgotten once none of them lives. `by_hand`: made by
    `app.schedule`."""

    digest: str
    number: int
    by: str = ""
    instances: tuple[str, ...] = ()
    definition: Definition | None = None
    by_hand: bool = False


class Pending(msgspec.Struct, frozen=True, omit_defaults=True):
    """A start that is decided: the id of its run, its instant, and whether a slot of the timetable is the reason."""

    run: str
    at: datetime
    is_slot: bool = True


class Pause(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why no slot is taken, since when, and by whom."""

    at: datetime
    reason: str = ""
    by: str = ""


class ScheduleState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that is known of a schedule."""

    definition: Definition
    made_at: datetime
    cursor: datetime
    declared: tuple[Declared, ...] = ()
    paused: Pause | None = None
    last: Pending | None = None
    last_local: str = ""
    """The last slot as local time without an offset, so that it never occurs again, even if the clock or the zone
    changes."""
    missed: int = 0
    skipped: int = 0
    fired: int = 0
    open: tuple[str, ...] = ()
    """Runs of it that may not have ended. Not kept for `overlap="allow"`."""
    buffered: tuple[Pending, ...] = ()
    looks: int = 0


class Advance(msgspec.Struct, frozen=True):
    """What follows: runs to start, runs to cancel or to kill first, and the schedule afterwards."""

    state: ScheduleState
    starts: tuple[Pending, ...] = ()
    cancels: tuple[str, ...] = ()
    kills: tuple[str, ...] = ()
    next_at: datetime | None = None


def run_id(name: str, slot: datetime) -> str:
    """The id of the run of a slot: the schedule and the local time, such as `nightly@2026-03-29T03:00:00+02:00`."""
    return f"{name}@{slot.isoformat()}"


def advance(name: str, state: ScheduleState, now: datetime, still_open: Collection[str]) -> Advance:
    """Decides every due slot, up to the limit of one pass, and starts buffered ones that may begin."""
    turn = _Turn(name, state, now, still_open)
    if state.paused is None:
        turn.take_buffered()
        turn.take_slots()
    return turn.end()


def add(
    name: str, state: ScheduleState, now: datetime, start: Pending, still_open: Collection[str]
) -> tuple[Advance, Fate]:
    """Decides one start besides the timetable, by hand. Also returns its outcome."""
    turn = _Turn(name, state, now, still_open)
    fate = turn.take(start)
    return turn.end(), fate


class _Turn:
    """One pass over a schedule."""

    def __init__(self, name: str, state: ScheduleState, now: datetime, still_open: Collection[str]) -> None:
        self.name, self.now = name, now
        self.state = state
        self.open = [run for run in state.open if run in still_open]
        self.buffered = list(state.buffered)
        self.starts: list[Pending] = []
        self.cancels: list[str] = []
        self.kills: list[str] = []
        self.is_over_full = False

    @property
    def definition(self) -> Definition:
        return self.state.definition

    def change(self, **columns: object) -> None:
        self.state = msgspec.structs.replace(self.state, **columns)

    # -- one start -----------------------------------------------------------------------------------------------------

    def take(self, start: Pending) -> Fate:
        """Starts a run, or applies `overlap` while an earlier run is open."""
        overlap = self.definition.overlap
        if not self.open or overlap == "allow":
            self.start(start)
            return "started"
        match overlap:
            case "skip":
                self.change(skipped=self.state.skipped + 1)
                return "skipped"
            case "kill":
                self.withdraw_starts()
                self.kills += [run for run in self.open if run not in self.kills]
                self.open = []
                self.start(start)
                return "started"
            case "cancel":
                self.cancels += [run for run in self.open if run not in self.cancels]
                self.change(skipped=self.state.skipped + len(self.buffered))
                self.buffered = [start]
                return "buffered"
            case "buffer_one" | "buffer_all":
                if len(self.buffered) >= (1 if overlap == "buffer_one" else MOST_BUFFERED):
                    self.change(skipped=self.state.skipped + 1)
                    return "skipped"
                self.buffered.append(start)
                return "buffered"

    def start(self, start: Pending) -> None:
        self.starts.append(start)
        if self.definition.overlap != "allow":
            self.open.append(start.run)
        if start.is_slot:
            self.change(fired=self.state.fired + 1)

    def withdraw_starts(self) -> None:
        """Runs that this pass would start, only for a later slot of it to kill them, are skipped instead."""
        self.open = [run for run in self.open if all(run != one.run for one in self.starts)]
        fired = sum(one.is_slot for one in self.starts)
        self.change(skipped=self.state.skipped + len(self.starts), fired=self.state.fired - fired)
        self.starts = []

    def take_buffered(self) -> None:
        """Starts buffered slots once nothing is open; all of them, if runs may overlap by now."""
        while self.buffered and (not self.open or self.definition.overlap == "allow"):
            self.start(self.buffered.pop(0))

    # -- the timetable -------------------------------------------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        """Whether it has reached its number of runs."""
        waiting = sum(one.is_slot for one in self.buffered)
        return self.definition.times is not None and self.state.fired + waiting >= self.definition.times

    def take_slots(self) -> None:
        definition = self.definition
        window = ON_TIME if definition.missed == "none" else max(definition.catch_up, ON_TIME)
        begin = earlier(self.now, window)
        late: datetime | None = None
        for count, (slot, due_at) in enumerate(_due(self.name, self.state, self.now)):
            if count == MOST_SLOTS or len(self.starts) >= MOST_STARTS or self.is_done:
                self.is_over_full = not self.is_done
                break
            self.change(cursor=slot.astimezone(UTC))
            if due_at < begin:
                self.change(missed=self.state.missed + 1)
            elif definition.missed == "all":
                self.take_slot(slot)
            else:
                if late is not None:
                    self.change(missed=self.state.missed + 1)
                late = slot
        if late is None:
            return
        if self.is_over_full:  # a later slot may be the last one
            self.change(missed=self.state.missed + 1)
        else:
            self.take_slot(late)

    def take_slot(self, slot: datetime) -> None:
        start = Pending(run_id(self.name, slot), slot.astimezone(UTC))
        self.change(last=start, last_local=_local(slot))
        self.take(start)

    # -- the end -------------------------------------------------------------------------------------------------------

    def end(self) -> Advance:
        looks = self.state.looks + 1 if self.buffered and not self.starts else 0
        self.change(open=tuple(self.open), buffered=tuple(self.buffered), looks=looks)
        return Advance(
            state=self.state,
            starts=tuple(self.starts),
            cancels=tuple(self.cancels),
            kills=tuple(self.kills),
            next_at=self.now if self.is_over_full else next_look(self.name, self.state, self.now),
        )


def next_look(name: str, state: ScheduleState, now: datetime) -> datetime | None:
    """When there is something to decide again; None: not by time."""
    if state.paused is not None:
        return None
    looks: list[datetime] = []
    slot = next_slot(state)
    if slot is not None:
        looks.append(slot.astimezone(UTC) + state.definition.timetable.delay(name, slot))
    if state.buffered:
        looks.append(later(now, min(FIRST_LOOK * 2 ** min(state.looks, 10), LONGEST_LOOK)))
    if sum(bool(one.instances) for one in state.declared) > 1:  # the workers of one deploy may go
        looks.append(later(now, RIVALS_LOOK))
    return min(looks, default=None)


def next_slot(state: ScheduleState) -> datetime | None:
    """The next slot, in its zone, if there is one."""
    definition = state.definition
    waiting = sum(one.is_slot for one in state.buffered)
    if definition.times is not None and state.fired + waiting >= definition.times:
        return None
    return next(_slots(state), None)


def _slots(state: ScheduleState) -> Iterator[datetime]:
    """Slots after the cursor, without local times that were already taken."""
    timetable = state.definition.timetable
    taken = state.last_local if timetable.has_local_slots else ""
    for slot in timetable.slots(state.cursor):
        if not taken or _local(slot) > taken:
            yield slot


def _due(name: str, state: ScheduleState, now: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Slots to decide now, each with when it was to begin."""
    for slot in _slots(state):
        due_at = slot.astimezone(UTC) + state.definition.timetable.delay(name, slot)
        if due_at > now:
            return
        yield slot, due_at


def _local(slot: datetime) -> str:
    return slot.replace(tzinfo=None, fold=0).isoformat()
