"""What schedules and limits cost in SQLite does not grow with how many of them there are."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.sqlite import SqliteStore, open_sqlite, schedules
from holdfast.adapters.sqlite.claims import ClaimRuns
from holdfast.adapters.sqlite.limit_statements import STATEMENTS
from holdfast.adapters.sqlite.transaction import Transaction
from holdfast.core.limit import Rule
from holdfast.core.turn import micros
from holdfast.testing.conformance.limits import ask, demand
from holdfast.testing.conformance.world import World, request
from tests.unit.adapters.sqlite.test_plans import Steps, plan

FILL_SCHEDULES = """
WITH RECURSIVE count (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < ?1)
INSERT INTO schedules (name, revision, next_at, workflow, body)
SELECT 'schedule-' || n, 1, ?2 + n * 1000000, 'order', x'7b7d' FROM count
"""
FILL_LINES = """
WITH RECURSIVE count (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < ?1)
INSERT INTO rates (name, key, tat, quiet_until) SELECT 'customer', 'key-' || n, 0, 0 FROM count
"""
FILL_PLACES = """
INSERT INTO places (name, key, slot, run, step, epoch)
SELECT name, key, 0, 1000000 + row_number() OVER (), 'price', 1 FROM rates WHERE key <> 'mine'
"""
FILL_WAITERS = """
INSERT INTO waiters (name, key, since, run, step)
SELECT name, key, ?1, 2000000 + row_number() OVER (), 'price' FROM rates WHERE key <> 'mine'
"""
ONE = Rule(at_once=1)


@pytest.mark.parametrize("name", ["SCHEDULE", "DUE", "NEXT_DUE", "LISTED"])
async def test_schedules_are_found_by_index(name: str, store: SqliteStore) -> None:
    """Contract: no sort, and what is due is found among what is due. (`NEXT_DUE` walks along the index.)"""
    steps = plan(store, getattr(schedules, name))
    assert any("schedules_due" in step or "PRIMARY KEY" in step for step in steps), steps
    assert not [step for step in steps if step.startswith("USE TEMP B-TREE FOR ORDER")], steps


HOT = (
    *("held", "line", "lock_lines", "free_slots", "slots", "places", "lines_of", "drop_places"),
    *("waiters", "has_ahead", "awake", "sleepers", "woken", "forget_ended", "wake_again"),
)


@pytest.mark.parametrize("name", HOT)
async def test_lines_are_found_by_index(name: str, store: SqliteStore) -> None:
    """Contract: of places, waiters and runs only those of a line, or of a run, are looked at."""
    steps = plan(store, getattr(STATEMENTS, name))
    tables = ("SCAN places", "SCAN waiters", "SCAN rates", "SCAN runs")
    assert not [step for step in steps if step.startswith(tables)], steps


async def looked(path: Path, clock: VirtualClock, count: int) -> int:
    """The work of a look for due schedules and of a claim, among so many schedules that are due later."""
    store = await open_sqlite(path.with_name(f"schedules-{count}.db"), clock=clock)
    world = World(store, clock)
    worker = await world.worker()
    await world.make("run")
    now = micros(clock.now())
    await store._writer.run(partial(_filled, statement=FILL_SCHEDULES, values=(count, now)), is_large=True)
    steps = Steps()
    await store._writer.run(steps.attach)
    before = steps.count
    await store._writer.run(partial(_look, now=now))
    taken = await store._writer.run(ClaimRuns(request(worker), {}))
    assert [run.id for run in taken.runs] == ["run"]
    await store.close()
    return steps.count - before


async def test_a_look_costs_the_same_among_a_hundred_thousand_schedules(path: Path, clock: VirtualClock) -> None:
    """Contract: nothing is due, ten schedules or 100,000: the same work to find that out, and to claim a run."""
    assert await looked(path, clock, 100_000) < 1.3 * await looked(path, clock, 10)


async def asked(path: Path, clock: VirtualClock, count: int) -> int:
    """The work of one step that asks for a place, among so many keys that are taken and waited for."""
    store = await open_sqlite(path.with_name(f"keys-{count}.db"), clock=clock)
    world = World(store, clock)
    holders = [await world.held_run(f"run-{number}") for number in range(2)]
    assert await ask(world, holders[0], demand("customer", ONE, "mine"))
    for statement, values in (
        (FILL_LINES, (count,)),
        (FILL_PLACES, ()),
        (FILL_WAITERS, (micros(clock.now()),)),
    ):
        await store._writer.run(partial(_filled, statement=statement, values=values), is_large=True)
    steps = Steps()
    await store._writer.run(steps.attach)
    before = steps.count
    assert not await ask(world, holders[1], demand("customer", ONE, "mine"))
    await store.close()
    return steps.count - before


async def test_a_place_costs_the_same_among_ten_thousand_keys(path: Path, clock: VirtualClock) -> None:
    """Contract: ten keys of a limit or 10,000, each with a holder and a waiter: the same work."""
    assert await asked(path, clock, 10_000) < 1.3 * await asked(path, clock, 10)


def _filled(transaction: Transaction, statement: str, values: tuple[int, ...]) -> None:
    transaction.run(statement, values)


def _look(transaction: Transaction, now: int) -> None:
    assert transaction.rows(schedules.DUE, (now, 100)) == []
    assert len(transaction.rows(schedules.NEXT_DUE, (0,))) == 1
