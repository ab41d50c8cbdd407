"""How SQLite finds things: by index, without sorting, whatever the number of rows; and how much room a step takes."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from holdfast.adapters.sqlite import SqliteStore
from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite.connection import run
from holdfast.adapters.sqlite.listing import conditions
from holdfast.core import events as e
from holdfast.core.status import Status
from holdfast.ports.runs import Filter
from tests.conformance.world import World

HOT: dict[str, str] = {
    "FIRST_READY": "runs_ready",
    "NEXT_READY": "runs_ready",
    "READY": "runs_ready",
    "NEXT_DUE": "runs_due",
    "PROMOTE": "runs_due",
    "CLAIMABLE": "sqlite_autoindex_runs_1",
    "CLAIM": "INTEGER PRIMARY KEY",
    "ADVANCE": "INTEGER PRIMARY KEY",
    "MOVE": "INTEGER PRIMARY KEY",
    "PARK": "INTEGER PRIMARY KEY",
    "FINISH": "INTEGER PRIMARY KEY",
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
    "RELEASE_ALL": "runs_held",
    "RUN_BY_ID": "sqlite_autoindex_runs_1",
    "RUN_BY_KEY": "runs_keyed",
    "UNWATCH": "watchers_by_run",
    "UNWATCH_ALL": "watchers_by_run",
    "BLOB": "blobs_by_name",
}


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
    steps = plan(store, getattr(sql, name))
    assert any(HOT[name] in step for step in steps), steps
    assert not [step for step in steps if step.startswith("SCAN") or "TEMP B-TREE" in step], steps


LISTS: list[tuple[Filter, str]] = [
    (Filter(), "runs_by_time"),
    (Filter(workflow="order"), "runs_by_workflow"),
    (Filter(statuses=(Status.FAILED,)), "runs_by_status"),
    (Filter(workflow="order", statuses=(Status.FAILED,)), "runs_by_"),
    (Filter(parent="p"), "runs_by_parent"),
    (Filter(root="r"), "runs_by_root"),
    (Filter(attributes={"tier": "gold"}), "attributes_by_value"),
]


@pytest.mark.parametrize(("which", "index"), LISTS)
async def test_a_list_uses_an_index(which: Filter, index: str, store: SqliteStore) -> None:
    parts, _ = conditions(which)
    steps = plan(store, "\n".join((sql.LIST_RUNS, *parts, sql.BEFORE, sql.NEWEST_FIRST)))
    assert any(index in step for step in steps), steps


async def test_the_common_update_touches_no_index(store: SqliteStore) -> None:
    """Contract: what a step changes in its run is in no index."""
    code = [row[1] for row in explained(store, "EXPLAIN", sql.ADVANCE)]
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
