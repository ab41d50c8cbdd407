"""How SQLite finds things: by index, without sorting, whatever the number of rows; and how much room a step takes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.sql.run_list import BEFORE, NEWEST_FIRST
from holdfast.adapters.sqlite import SqliteStore, open_sqlite, suspect_statements, turn_statements
from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite.claims import ClaimRuns
from holdfast.adapters.sqlite.connections import run
from holdfast.adapters.sqlite.run_list import conditions
from holdfast.adapters.sqlite.transaction import Transaction
from holdfast.core import events as e
from holdfast.core.status import Status
from holdfast.core.turn import micros
from holdfast.ports.runs import Filter
from holdfast.testing.conformance.world import World, request

HOT: dict[str, str] = {
    "FIRST_READY": "runs_ready",
    "NEXT_VERSION_READY": "runs_ready",
    "NEXT_WORKFLOW_READY": "runs_ready",
    "READY": "runs_ready",
    "NEXT_DUE": "runs_due",
    "PROMOTE": "runs_due",
    "CLAIMABLE": "sqlite_autoindex_runs_1",
    "CLAIM": "INTEGER PRIMARY KEY",
    "ADVANCE": "INTEGER PRIMARY KEY",
    "MOVE": "INTEGER PRIMARY KEY",
    "LEAVE": "INTEGER PRIMARY KEY",
    "END": "INTEGER PRIMARY KEY",
    "REFUSAL": "INTEGER PRIMARY KEY",
    "FENCE": "INTEGER PRIMARY KEY",
    "STORED_TURN": "events_by_run",
    "LAST_TURN": "events_by_run",
    "READ_FROM": "events_by_run",
    "READ_AFTER": "events_by_run",
    "UNREAD": "inbox_unread",
    "CONSUME": "inbox_unread",
    "HAS_MESSAGE": "inbox_by_sender",
    "TARGET": "sqlite_autoindex_runs_1",
    "HELD": "runs_held",
    "FREE": "runs_held",
    "FREE_SUSPECTS": "runs_suspect",
    "SUSPECTS_READY": "runs_suspect",
    "SUSPECTS_HELD": "runs_suspect",
    "TAKE_BACK": "runs_freed",
    "ACQUIT": "INTEGER PRIMARY KEY",
    "RELEASE_ALL": "runs_held",
    "RUN_BY_ID": "sqlite_autoindex_runs_1",
    "RUN_BY_KEY": "runs_keyed",
    "UNWATCH": "watchers_by_run",
    "UNWATCH_ALL": "watchers_by_run",
    "BLOB": "blobs_by_name",
    "LEASE_OF_RUN": "sqlite_autoindex_runs_1",
    "REINSTATE": "sqlite_autoindex_runs_1",
    "LAST_SEQ": "events_by_run",
}

STATEMENTS = (sql, suspect_statements, turn_statements)


def explained(store: SqliteStore, how: str, statement: str) -> list[tuple[Any, ...]]:
    numbered = re.findall(r"\?(\d+)", statement)
    count = max(map(int, numbered)) if numbered else statement.count("?")
    rows: list[tuple[Any, ...]] = store._rows(f"{how} {statement}", *[None] * count)
    return rows


def plan(store: SqliteStore, statement: str) -> list[str]:
    return [row[3] for row in explained(store, "EXPLAIN QUERY PLAN", statement)]


@pytest.mark.parametrize("name", HOT)
async def test_it_is_found_by_index(name: str, store: SqliteStore) -> None:
    """Contract: no scan and no sort, so the cost does not grow with the table."""
    steps = plan(store, next(getattr(each, name) for each in STATEMENTS if hasattr(each, name)))
    assert any(HOT[name] in step for step in steps), steps
    assert not [step for step in steps if step.startswith("SCAN") or "TEMP B-TREE" in step], steps


LISTS: list[tuple[Filter, str]] = [
    (Filter(), "runs_by_time"),
    (Filter(workflow="order"), "runs_by_workflow"),
    (Filter(statuses=(Status.FAILED,)), "runs_by_status"),
    (Filter(workflow="order", statuses=(Status.FAILED,)), "runs_by_"),
    (Filter(parent="p"), "runs_by_parent"),
    (Filter(parents=("p", "q")), "runs_by_parent"),
    (Filter(root="r"), "runs_by_root"),
    (Filter(worker="w", statuses=(Status.PENDING, Status.RUNNING)), "runs_by_worker"),
    (Filter(attributes={"tier": "gold"}), "attributes_by_value"),
    (Filter(is_suspect=True), "runs_suspect"),
]


@pytest.mark.spec("stepflow.M5")
@pytest.mark.parametrize(("which", "index"), LISTS)
async def test_a_list_uses_an_index(which: Filter, index: str, store: SqliteStore) -> None:
    parts, _ = conditions(which)
    steps = plan(store, "\n".join((sql.LIST_RUNS, *parts, BEFORE, NEWEST_FIRST)))
    assert any(index in step for step in steps), steps


FILL = """
WITH RECURSIVE count (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < ?1)
INSERT INTO runs (id, epoch, next_ordinal, status, workflow, version, inbox_last, inbox_read, claims, instance,
    available_at, ready, queue, priority, worker, bounces, note, key, input_hash, parent, parent_key, root, code, codec,
    created_at, updated_at, doing)
SELECT 'run-' || n, 0, 2, iif(n % 5 = 4, 'completed', 'pending'), iif(n % 5 < 2, 'foreign', 'order'), n % 5 % 2, 0, 0,
    0, '', CASE n % 5 WHEN 4 THEN NULL WHEN 3 THEN ?2 + n ELSE ?2 - n END, iif(n % 5 = 4, NULL, n % 5 < 3),
    'default', 0, '', 0, '', '', '', '', '', '', '', '', ?2, ?2, x''
FROM count
"""


class Steps:
    """How many steps of its virtual machine SQLite makes."""

    def __init__(self) -> None:
        self.count = 0

    def attach(self, transaction: Transaction) -> None:
        transaction.connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._add)

    def _add(self, event: dict[str, Any]) -> None:
        self.count += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]


async def test_a_claim_costs_the_same_among_any_number_of_runs(path: Path, clock: VirtualClock) -> None:
    """Contract: ready, parked and ended runs, and those of others, in tens or ten thousands: the same work."""
    costs: list[int] = []
    for rows in (100, 20_000):
        store = await open_sqlite(path.with_name(f"{rows}.db"), clock=clock)
        world = World(store, clock)
        mine = await world.worker("i1", definitions=(("order", "0"), ("order", "1")))
        await world.worker("i2", definitions=(("foreign", "0"), ("foreign", "1")))
        await store._writer.run(partial(fill_runs, rows=rows, now=micros(clock.now())), is_large=True)
        steps = Steps()
        await store._writer.run(steps.attach)
        before = steps.count
        taken = await store._writer.run(ClaimRuns(request(mine), {}))
        costs.append(steps.count - before)
        assert len(taken.runs) == 10
        await store.close()
    assert costs[1] < 1.3 * costs[0], costs


def fill_runs(transaction: Transaction, rows: int, now: int) -> None:
    transaction.run(FILL, (rows, now))


async def test_the_common_update_touches_no_index(store: SqliteStore) -> None:
    """Contract: what a step changes in its run is in no index."""
    code = [row[1] for row in explained(store, "EXPLAIN", turn_statements.ADVANCE)]
    assert "Insert" in code
    assert not {"IdxInsert", "IdxDelete"} & set(code)


async def test_a_step_takes_little_room(store: SqliteStore, world: World) -> None:
    """Contract: below 250 bytes on disk for each turn of a step, its index included."""
    holder = await world.held_run("order-1")
    await holder.commits(e.StepScheduled(key="charge"))
    value = msgspec.Raw(b'{"ok":true,"payment":"p-000000000001"}')
    turn = holder.turn(e.StepCompleted(key="charge:123", value=value), e.StepScheduled(key="charge:124", value=value))
    row, count = turn.row, 20_000
    assert 120 <= len(row.body) <= 170

    def fill(transaction: Any) -> None:
        for number in range(count):
            values = (holder.no + number % 100, 10 + number // 100, 1, row.at + number, 1, row.checksum, row.body)
            run(transaction.connection, sql.APPEND, values)

    await store._writer.run(fill)
    ((used,),) = store._rows("SELECT sum(pgsize) FROM dbstat('main', 1) WHERE name IN ('events', 'events_by_run')")
    assert used / count < 250, used / count


OWN = """
WITH RECURSIVE count (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < ?1)
INSERT INTO runs (id, epoch, next_ordinal, status, workflow, version, inbox_last, inbox_read, claims, instance,
    available_at, ready, queue, priority, worker, bounces, note, key, input_hash, parent, parent_key, root, code, codec,
    created_at, updated_at, doing)
SELECT 'held-' || n, 1, 2, 'running', 'order', '', 0, 0, 0, 'i' || (n % ?3), ?2, NULL, 'default', 0, 'w' || (n % ?3), 0,
    '', '', '', '', '', '', '', '', ?2, ?2, x''
FROM count
"""


@pytest.mark.spec("stepflow.M5", "stepflow.R19")
async def test_recovery_costs_what_the_worker_has(
    path: Path, clock: VirtualClock, record_property: Callable[[str, object], None]
) -> None:
    """Contract: a restarted worker finds its hundred runs by index, among a hundred as among ten thousand."""
    costs: list[int] = []
    for workers in (1, 100):
        store = await open_sqlite(path.with_name(f"{workers}.db"), clock=clock)
        world = World(store, clock)
        for number in range(workers):
            await world.worker(f"i{number}", f"w{number}", definitions=(("order", ""),))
        values = (100 * workers, micros(clock.now()), workers)
        await store._writer.run(partial(hold_runs, values=values), is_large=True)
        steps = Steps()
        await store._writer.run(steps.attach)
        begin = time.perf_counter()
        again = await world.worker("again", "w0", definitions=(("order", ""),), takes_over="all")
        taken = await world.claim(again, limit=100, only=[f"held-{n * workers}" for n in range(1, 101)])
        took = time.perf_counter() - begin
        assert len(taken.runs) == 100
        costs.append(steps.count)
        if workers > 1:
            record_property("figure", f"a restart among 10,000 runs of 100 workers: {took * 10:.2f} ms per acquire")
        await store.close()
    assert costs[1] <= costs[0] * 1.3, costs


def hold_runs(transaction: Transaction, values: tuple[int, int, int]) -> None:
    transaction.run(OWN, values)
