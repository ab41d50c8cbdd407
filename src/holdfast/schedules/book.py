"""Moves one schedule from one revision to the next. A worker that comes second reads it again and decides again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

import msgspec

from holdfast.core.schedule import Advance, ScheduleState, next_look
from holdfast.errors import CorruptJournal, RunFinished, RunNotFound, ScheduleNotFound, StoreContended
from holdfast.ports.facts import RunStarted
from holdfast.ports.schedules import Move, Moved, StoredSchedule
from holdfast.ports.store import Store
from holdfast.ports.telemetry import Tell
from holdfast.schedules.slot_run import cancel_of, run_of
from holdfast.upkeep import imposition

TRIES = 20
_decode = msgspec.json.Decoder(ScheduleState).decode


def state_of(stored: StoredSchedule) -> ScheduleState:
    """The state of the schedule. Raises `CorruptJournal` if it cannot be read."""
    try:
        return _decode(stored.body)
    except (msgspec.DecodeError, ValueError) as error:
        raise CorruptJournal(
            f"schedule {stored.name}: its row cannot be read ({error}). Make it again: app.schedule(…)."
        ) from error


def readable_state(stored: StoredSchedule) -> ScheduleState | None:
    """The state, when the schedule is made again: empty if it cannot be read."""
    try:
        return state_of(stored)
    except CorruptJournal:
        return None


async def open_runs(store: Store, state: ScheduleState) -> set[str]:
    """The runs of it that have not ended."""
    rows = [(run, await store.get(run)) for run in state.open]
    return {run for run, row in rows if row is not None and not row.status.is_terminal}


async def write(
    store: Store, name: str, revision: int, advance: Advance, now: datetime, *, by_hand: bool = False
) -> bool:
    """Writes the decision. Returns False if another process was faster. Runs are killed first, so that a process that
    decides again after a crash finds them ended."""
    for run in advance.kills:
        reason = f"schedule {name}: the next run is due"
        with suppress(RunNotFound, RunFinished):  # it ended meanwhile, and may have been removed
            await imposition.kill(store, run, reason=reason, actor=f"schedule {name}")
    state = advance.state
    work = state.definition.work
    successor = next(iter((*advance.starts, *state.buffered)), None)
    cause = "" if successor is None else successor.run
    moving = await store.move_schedule(
        Move(
            name=name,
            revision=revision,
            next_at=advance.next_at,
            workflow=work.workflow,
            body=msgspec.json.encode(state),
            runs=tuple(run_of(name, work, start, now) for start in advance.starts),
            messages=tuple(cancel_of(name, run, cause) for run in advance.cancels),
            by_hand=by_hand,
        )
    )
    return isinstance(moving, Moved)


def tell_starts(name: str, advance: Advance, tell: Tell) -> None:
    """Reports the runs that were started."""
    work = advance.state.definition.work
    for start in advance.starts:
        tell(RunStarted(start.run, work.workflow, work.version, work.queue, name))


async def change(
    store: Store,
    name: str,
    decide: Callable[[ScheduleState | None, datetime], ScheduleState | None],
    *,
    replaces: bool = False,
) -> ScheduleState | None:
    """Changes a schedule by hand: `decide` computes its new state from the current one (None: missing, or nothing to
    change). Returns the new state. `replaces`: an unreadable one counts as missing."""
    for _ in range(TRIES):
        stored = await store.schedule(name)
        now = store.clock.now()
        state = None if stored is None else (readable_state if replaces else state_of)(stored)
        wanted = decide(state, now)
        if wanted is None or wanted == state:
            return state
        advance = Advance(state=wanted, next_at=next_look(name, wanted, now))
        if await write(store, name, 0 if stored is None else stored.revision, advance, now, by_hand=True):
            return wanted
    raise contended(name)


async def remove(store: Store, name: str) -> None:
    """Removes a schedule; its runs stay."""
    for _ in range(TRIES):
        stored = await store.schedule(name)
        if stored is None:
            raise missing(store, name)
        if isinstance(await store.move_schedule(Move(name=name, revision=stored.revision, by_hand=True)), Moved):
            return
    raise contended(name)


def missing(store: Store, name: str) -> ScheduleNotFound:
    """The error for an unknown name."""
    return ScheduleNotFound(f"no schedule {name!r} in {store.url}; list what is there: holdfast schedules")


def contended(name: str) -> StoreContended:
    """The error for a schedule that changes faster than we can."""
    return StoreContended(f"schedule {name}: other processes changed it {TRIES} times meanwhile. Try again.")
