"""Starts what is due, and declares what an app declares: a worker's part."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from holdfast.core.declaration import declared, has_rivals, settled
from holdfast.core.instants import later
from holdfast.core.schedule import Advance, Definition, ScheduleState, advance, next_look
from holdfast.errors import CorruptJournal, StoreError
from holdfast.ports.facts import Trouble
from holdfast.ports.leases import live_instances
from holdfast.ports.schedules import Move, StoredSchedule
from holdfast.ports.store import Store
from holdfast.ports.telemetry import Tell
from holdfast.schedules.book import TRIES, open_runs, readable_state, state_of, tell_starts, write

DUTY = "schedules"
TTL = timedelta(seconds=10)
"""How long a worker has the duty after each pass. If it dies, another one starts runs at most this much later."""

LIMIT = 100
"""Maximum schedules of one pass."""

PUT_OFF = timedelta(minutes=1)
"""When to retry a schedule that could not be decided."""


class Fired(msgspec.Struct):
    """One pass: how long until there is something to do (None: unknown) and, by schedule, the runs whose end a buffered
    slot waits for."""

    wait: timedelta | None = None
    awaited: dict[str, frozenset[str]] = {}


async def fire_due(store: Store, *, holder: str, tell: Tell) -> Fired | None:
    """Decides what is due; None if another worker has the duty. If nothing is due it only reads."""
    due = await store.due_schedules(limit=LIMIT)
    fired = Fired(wait=None if due.next_at is None else max(due.next_at - due.now, timedelta(0)))
    if not due.schedules:
        return fired
    if not await store.take_duty(DUTY, holder=holder, ttl=TTL):
        return None
    for stored in due.schedules:
        try:
            state = await _fire(store, stored, due.now, tell)
        except Exception as error:
            if isinstance(error, StoreError) and not isinstance(error, CorruptJournal):
                raise
            what = f"schedule {stored.name}: its slots were not decided, trying again in a minute"
            tell(Trouble(what, error, is_known=False, is_bug=True))
            put_off = later(due.now, PUT_OFF)
            await store.move_schedule(
                Move(
                    name=stored.name,
                    revision=stored.revision,
                    next_at=put_off,
                    workflow=stored.workflow,
                    body=stored.body,
                )
            )
            continue
        fired.awaited[stored.name] = frozenset(state.open) if state is not None and state.buffered else frozenset()
    fired.wait = timedelta(0)  # what was decided may be due again, and more may be
    return fired


async def fire_buffered(store: Store, name: str, *, tell: Tell) -> frozenset[str]:
    """A run ended that a buffered slot of this schedule may wait for. Returns the runs that it still waits for."""
    stored = await store.schedule(name)
    if stored is None:
        return frozenset()
    now, state = store.clock.now(), state_of(stored)
    step = advance(name, state, now, await open_runs(store, state))
    if step.starts and await write(store, name, stored.revision, step, now):
        state = step.state
        tell_starts(name, step, tell)
    return frozenset(state.open) if state.buffered else frozenset()


async def _fire(store: Store, stored: StoredSchedule, now: datetime, tell: Tell) -> ScheduleState | None:
    """Decides one schedule. None: another process was faster."""
    state = state_of(stored)
    if has_rivals(state):
        state = settled(state, await live_instances(store), now)
    step = advance(stored.name, state, now, await open_runs(store, state))
    if not await write(store, stored.name, stored.revision, step, now):
        return None
    tell_starts(stored.name, step, tell)
    return step.state


async def declare(store: Store, definitions: Mapping[str, Definition], *, instance: str, by: str) -> None:
    """Declares the schedules of an app. An unchanged one costs one read and one write."""
    if not definitions:
        return
    live = await live_instances(store)
    for name, definition in definitions.items():
        for _ in range(TRIES):
            stored, now = await store.schedule(name), store.clock.now()
            known = None if stored is None else readable_state(stored)
            state = declared(known, definition, instance=instance, by=by, live=live, now=now)
            if state == known:
                break
            step = Advance(state=state, next_at=next_look(name, state, now))
            if await write(store, name, 0 if stored is None else stored.revision, step, now):
                break
