"""Schedules as a client sees them: creating, changing, reading and triggering them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from holdfast.authoring.handle import Run
from holdfast.authoring.schedule import Schedule, check_schedule_name
from holdfast.authoring.script.workflows import AnyWorkflow
from holdfast.client.client_run import ClientRun
from holdfast.core.declaration import is_declared, made_by_hand
from holdfast.core.ids import check_id, check_text
from holdfast.core.instants import kept_instant
from holdfast.core.schedule import Fate, Overlap, Pause, Pending, ScheduleState, add, next_slot
from holdfast.core.specs import WorkflowSpec
from holdfast.errors import Conflict, InvalidInput, InvalidSchedule
from holdfast.ports.leases import live_instances
from holdfast.ports.schedules import StoredSchedule
from holdfast.schedules import book

if TYPE_CHECKING:
    from holdfast.client.client import Client

R = TypeVar("R")

MOST_SLOTS = 10_000
"""Maximum number of slots of one backfill."""

SHOWN = 5
PAGE = 100


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it is now. `next` and `last` are slots; `upcoming` are the next few."""

    name: str
    workflow: str
    in_words: str
    next: datetime | None
    upcoming: tuple[datetime, ...]
    last: datetime | None
    last_run: str
    fired: int
    """Number of started slots."""
    missed: int
    """Slots that passed while no worker was there, or too many at once, and that were not started."""
    skipped: int
    """Slots and manual starts that were skipped because an earlier run was open."""
    buffered: int
    overlap: Overlap
    paused: bool
    reason: str
    """Why it is paused."""
    declared_by: str
    """The worker or person whose definition applies."""
    by_hand: bool
    """Whether a person made it, with `app.schedule`."""
    is_declared: bool = True
    """Whether a live worker declares it, or a person made it."""


class Slot(msgspec.Struct, frozen=True):
    """A slot of a backfill: its instant, its run, and its outcome."""

    at: datetime
    run: str
    fate: Fate


class ScheduleHandle(Generic[R]):
    """A handle on a schedule, from `app.schedule` or `app.get_schedule`. None of its verbs needs a worker."""

    def __init__(self, client: Client, name: str, spec: WorkflowSpec | None) -> None:
        self.name: str = name
        self._client = client
        self._spec = spec

    def __repr__(self) -> str:
        return f"<ScheduleHandle {self.name}>"

    async def view(self) -> ScheduleView:
        """The schedule as it is now."""
        store = self._client.store
        stored = await store.schedule(self.name)
        if stored is None:
            raise book.missing(store, self.name)
        return view_of(stored, await live_instances(store))

    async def pause(self, reason: str = "") -> None:
        """Takes no slot until it is resumed. Open runs continue."""
        actor = self._client.actor
        check_text(reason, "reason")

        def decide(state: ScheduleState, now: datetime) -> ScheduleState:
            return state if state.paused else msgspec.structs.replace(state, paused=Pause(now, reason, actor))

        await self._change(decide)

    async def resume(self) -> None:
        """Takes slots again, from now on. Slots of the pause are not started."""

        def decide(state: ScheduleState, now: datetime) -> ScheduleState:
            if state.paused is None:
                return state
            return msgspec.structs.replace(state, paused=None, cursor=max(now, state.cursor))

        await self._change(decide)

    async def remove(self) -> None:
        """Removes the schedule; its runs stay. A schedule that an app declares comes back with the next worker that
        starts."""
        await book.remove(self._client.store, self.name)

    async def trigger(self, *, id: str | None = None) -> Run[R]:
        """Starts a run now, besides the timetable. The same `id` starts one run: trigger again with it if an answer was
        lost. Raises `Conflict` if an earlier run is open and `overlap` is "skip". With "buffer_one", "buffer_all" and
        "cancel" the run begins when the earlier one has ended, and cannot be found before.
        """
        at = self._client.store.clock.now()
        mark = at.isoformat() if id is None else check_id(id, "id of a trigger")
        slot = await self._add(at, check_id(f"{self.name}@trigger:{mark}", "run of this trigger"))
        if slot.fate == "skipped":
            raise Conflict(
                f"schedule {self.name}: an earlier run is open, and overlap= allows no second one. Wait for its end, "
                "cancel it, or start the workflow with app.start(…)."
            )
        return ClientRun(self._client, slot.run, self._spec)

    async def backfill(self, since: datetime, until: datetime, *, most: int = 100) -> AsyncIterator[Slot]:
        """Starts the slots from `since` until before `until` as if they were due now, one after the other, and returns
        the outcome of each. They are separate runs, and `overlap` applies; the same slot is backfilled once. Slots that
        have not come yet start at their time and are left out. Raises `InvalidSchedule`, having started none, if there
        are more slots than `most`.
        """
        if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST_SLOTS:
            raise InvalidInput(f"most={most!r}: give a number of slots from 1 to {MOST_SLOTS:,}")
        begin, end = kept_instant(since, "since"), kept_instant(until, "until")
        if begin >= end:
            raise InvalidInput(
                f"schedule {self.name}: backfill from {begin.isoformat()} until {end.isoformat()}: since must lie "
                "before until. Nothing was started."
            )
        state, now = await self._state(), self._client.store.clock.now()
        if begin > now:
            raise InvalidInput(
                f"schedule {self.name}: backfill since {begin.isoformat()}: this is in the future, where slots start "
                "by themselves. Give a time that has passed. Nothing was started."
            )
        slots = list(islice(_between(state, begin, min(end, now)), most + 1))
        if len(slots) > most:
            raise InvalidSchedule(
                f"schedule {self.name}: more than {most:,} slots lie between {begin.isoformat()} and "
                f"{end.isoformat()}. Nothing was started. Take less at a time, or raise most= (up to {MOST_SLOTS:,})."
            )
        for slot in slots:
            yield await self._add(slot, f"{self.name}@backfill:{slot.isoformat()}")

    async def _add(self, at: datetime, run: str) -> Slot:
        """One start besides the timetable. The same run is started once, even if an answer was lost."""
        store = self._client.store
        for _ in range(book.TRIES):
            stored = await store.schedule(self.name)
            if stored is None:
                raise book.missing(store, self.name)
            state, now = book.state_of(stored), store.clock.now()
            if any(one.run == run for one in state.buffered):
                return Slot(at, run, "buffered")
            if await store.get(run) is not None:
                return Slot(at, run, "started")
            step, fate = add(self.name, state, now, Pending(run, at, is_slot=False), await book.open_runs(store, state))
            if await book.write(store, self.name, stored.revision, step, now, by_hand=True):
                book.tell_starts(self.name, step, self._client.telemetry.tell)
                return Slot(at, run, fate)
        raise book.contended(self.name)

    async def _state(self) -> ScheduleState:
        stored = await self._client.store.schedule(self.name)
        if stored is None:
            raise book.missing(self._client.store, self.name)
        return book.state_of(stored)

    async def _change(self, decide: Callable[[ScheduleState, datetime], ScheduleState]) -> None:
        store = self._client.store

        def change(state: ScheduleState | None, now: datetime) -> ScheduleState:
            if state is None:
                raise book.missing(store, self.name)
            return decide(state, now)

        await book.change(store, self.name, change)


async def make(client: Client, schedule: Schedule[R]) -> ScheduleHandle[R]:
    if not isinstance(schedule, Schedule):
        raise InvalidInput(f"app.schedule takes a Schedule(…), got {schedule!r}")

    def decide(state: ScheduleState | None, now: datetime) -> ScheduleState:
        return made_by_hand(state, schedule.definition, by=client.actor, now=now)

    await book.change(client.store, schedule.name, decide, replaces=True)
    return ScheduleHandle(client, schedule.name, schedule.call.spec)


async def get(client: Client, name: str, workflow: AnyWorkflow[..., Any] | None) -> ScheduleHandle[Any]:
    stored = await client.store.schedule(check_schedule_name(name))
    if stored is None:
        raise book.missing(client.store, name)
    if workflow is not None and workflow.name != stored.workflow:
        raise Conflict(f"schedule {name!r} starts workflow {stored.workflow!r}, not {workflow.name!r}")
    work = book.state_of(stored).definition.work
    spec = workflow.spec if workflow is not None else client.registry.declared(work.workflow, work.version)
    return ScheduleHandle(client, name, spec)


async def views(client: Client) -> AsyncIterator[ScheduleView]:
    live = await live_instances(client.store)
    after = ""
    while page := await client.store.schedules(after=after, limit=PAGE):
        for stored in page:
            yield view_of(stored, live)
        after = page[-1].name


def view_of(stored: StoredSchedule, live: Collection[str]) -> ScheduleView:
    """A schedule's row, for people."""
    state = book.state_of(stored)
    definition, counts = state.definition, state.definition.digest
    declared = next((one for one in state.declared if one.digest == counts), None)
    first = None if state.paused else next_slot(state)
    upcoming = (first, *islice(definition.timetable.slots(first), SHOWN - 1)) if first is not None else ()
    if definition.times is not None:
        upcoming = upcoming[: max(0, definition.times - state.fired)]
    return ScheduleView(
        name=stored.name,
        workflow=stored.workflow,
        in_words=definition.timetable.words(),
        next=first,
        upcoming=upcoming,
        last=None if state.last is None else state.last.at,
        last_run="" if state.last is None else state.last.run,
        fired=state.fired,
        missed=state.missed,
        skipped=state.skipped,
        buffered=len(state.buffered),
        overlap=definition.overlap,
        paused=state.paused is not None,
        reason="" if state.paused is None else state.paused.reason,
        declared_by="" if declared is None else declared.by,
        by_hand=declared is not None and declared.by_hand,
        is_declared=is_declared(state, live),
    )


def _between(state: ScheduleState, since: datetime, until: datetime) -> Iterator[datetime]:
    for slot in state.definition.timetable.slots(since - timedelta(microseconds=1)):
        if slot >= until:
            return
        yield slot
