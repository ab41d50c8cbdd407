"""A worker's pass over the schedules that are due."""

from __future__ import annotations

from datetime import timedelta

from holdfast.adapters.memory import MemoryStore, VirtualClock
from holdfast.core.schedule import Definition, Work
from holdfast.core.timetable import make_timetable
from holdfast.ports.facts import Fact, RunStarted, Trouble
from holdfast.ports.schedules import Move, Moved, StoredSchedule
from holdfast.schedules.due import PUT_OFF, declare, fire_due
from holdfast.testing.conformance.world import START

HOURLY = Definition(timetable=make_timetable(every="1h"), work=Work(workflow="report"))


def damaging(stored: StoredSchedule) -> Move:
    """Writes what no version of Holdfast can read."""
    return Move(
        name=stored.name, revision=stored.revision, next_at=stored.next_at, workflow=stored.workflow, body=b"{{"
    )


async def test_a_schedule_that_cannot_be_read_does_not_hold_up_the_others() -> None:
    """Contract: it is reported and looked at again in a minute; every other one starts its runs, once."""
    clock = VirtualClock(START)
    store = MemoryStore(clock)
    await declare(store, {"broken": HOURLY, "sound": HOURLY}, instance="i1", by="shop")
    clock.advance(timedelta(hours=1, seconds=1))
    broken = await store.schedule("broken")
    assert broken is not None
    assert isinstance(await store.move_schedule(damaging(broken)), Moved)
    told: list[Fact] = []
    for _ in range(2):
        assert await fire_due(store, holder="w1", tell=told.append) is not None
    assert [fact.schedule for fact in told if isinstance(fact, RunStarted)] == ["sound"]
    assert [str(fact.what) for fact in told if isinstance(fact, Trouble)] == [
        "schedule broken: its slots were not decided, trying again in a minute"
    ]
    again = await store.schedule("broken")
    assert again is not None
    assert again.next_at == clock.now() + PUT_OFF


async def test_one_worker_has_the_duty() -> None:
    """Contract: what is due is decided by the worker that has the duty; another one leaves it alone."""
    clock = VirtualClock(START)
    store = MemoryStore(clock)
    await declare(store, {"sound": HOURLY}, instance="i1", by="shop")
    clock.advance(timedelta(hours=1, seconds=1))
    told: list[Fact] = []
    assert await store.take_duty("schedules", holder="w1", ttl=timedelta(minutes=1))
    assert await fire_due(store, holder="w2", tell=told.append) is None
    assert told == []
    assert await fire_due(store, holder="w1", tell=told.append) is not None
    assert [type(fact) for fact in told] == [RunStarted]
