"""How PostgreSQL finds things among many rows: claims by their partial indexes, never by looking at all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql as quoting

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.postgres import open_postgres
from holdfast.adapters.postgres.leases import PROMOTED_A_CLAIM
from holdfast.core.turn import micros
from holdfast.testing.conformance.world import START, World
from tests.chaos.stage import until
from tests.support.postgres import new_schema, server_url

PARKED, READY = 100_000, 2_000
A_TIME = 1_000  # rows a transaction: a long one would hold back whoever reads a tree on this server
FILL = """
INSERT INTO runs (id, epoch, next_ordinal, status, workflow, version, claims, instance, available_at, ready, queue,
    priority, worker, key, input_hash, parent, parent_key, root, code, codec, created_at, updated_at, doing)
SELECT %(kind)s || n, 0, 2, 'running', 'order', '', 0, '', %(at)s + n, %(ready)s, 'default', n %% 3, '', '', '', '', '',
    '', '', '', n, n, '' FROM generate_series(1, %(count)s) AS n
"""
HOLD = """
INSERT INTO runs (id, epoch, next_ordinal, status, workflow, version, claims, instance, available_at, ready, queue,
    priority, worker, key, input_hash, parent, parent_key, root, code, codec, created_at, updated_at, doing)
SELECT 'held-' || n, 1, 2, 'running', 'order', '', 0, 'i' || n %% 100, %(at)s, NULL, 'default', 0, 'w' || n %% 100, '',
    '', '', '', '', '', '', n, n, '' FROM generate_series(1, 10000) AS n
"""
CONNECTED = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
VISITS = "SELECT seq_tup_read, idx_scan FROM pg_stat_user_tables WHERE schemaname = %s AND relname = 'runs'"
# The statements of the functions that meet many rows, with the values that a claim binds.
HOT = {
    "promote": (
        """SELECT no FROM runs WHERE ready = 0 AND queue = 'default' AND available_at <= {now}
        ORDER BY available_at LIMIT 500""",
        "runs_due",
    ),
    "ready": (
        """SELECT no FROM runs WHERE ready = 1 AND queue = 'default' AND workflow = 'order' AND version = ''
        AND available_at <= {now} ORDER BY priority DESC, available_at, no LIMIT 150""",
        "runs_ready",
    ),
    "next definition": (
        """SELECT workflow, version FROM runs WHERE ready = 1 AND queue = 'default'
        AND (workflow, version) > ('order', '') ORDER BY workflow, version LIMIT 1""",
        "runs_ready",
    ),
    "next due": (
        "SELECT available_at FROM runs WHERE ready = 0 AND queue = 'default' ORDER BY available_at LIMIT 1",
        "runs_due",
    ),
    "holders": ("SELECT min(instance) FROM runs WHERE instance <> '' AND instance > 'i'", "runs_held"),
    "own runs": (
        "SELECT no FROM runs WHERE instance = 'i1' AND instance <> '' ORDER BY no FOR NO KEY UPDATE",
        "runs_held",
    ),
    "a page": ("SELECT * FROM run_rows WHERE true ORDER BY created_at DESC, no DESC LIMIT 101", "runs_by_time"),
    "by key": (
        """SELECT no FROM runs WHERE workflow = 'order' AND key = 'k' AND key <> '' AND created_at > 1
        ORDER BY created_at, no LIMIT 1""",
        "runs_keyed",
    ),
}


@pytest.fixture(scope="module")
def full() -> Iterator[tuple[str, psycopg.Connection[tuple[Any, ...]]]]:
    """A schema with many parked runs and some that are ready, filled in short transactions."""
    schema = new_schema()
    asyncio.run(_made(schema))
    now = micros(START)
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute(quoting.SQL("SET search_path = {}").format(quoting.Identifier(schema)))
        for part in range(PARKED // A_TIME):
            later = now + 3_600_000_000
            values = {"kind": f"parked{part}-", "at": later, "ready": 0, "count": A_TIME}
            connection.execute(FILL, values)
        connection.execute(FILL, {"kind": "ready-", "at": now - 10_000_000, "ready": 1, "count": READY})
        connection.execute("ANALYZE runs")
        yield schema, connection


async def _made(schema: str) -> None:
    await (await open_postgres(server_url(schema))).close()


@pytest.mark.parametrize("name", list(HOT))
def test_nothing_hot_looks_at_all_rows(full: tuple[str, psycopg.Connection[tuple[Any, ...]]], name: str) -> None:
    """Contract: among 100,000 parked rows each is found by the index made for it, without sorting them."""
    statement, index = HOT[name]
    text = "EXPLAIN " + statement.replace("{now}", str(micros(START)))
    plan = "\n".join(str(line) for (line,) in full[1].execute(text.encode()).fetchall())
    assert index in plan, plan
    assert "Seq Scan on runs" not in plan, plan


async def test_a_claim_takes_the_first_of_many(full: tuple[str, psycopg.Connection[tuple[Any, ...]]]) -> None:
    """Contract: by priority, then by time; then those that have come due are promoted, a bounded number at a time."""
    clock = VirtualClock(START)
    store = await open_postgres(server_url(full[0]) + "&notices=off", clock=clock)
    world = World(store, clock)
    worker = await world.worker("i1")
    claims = await world.claim(worker, limit=100)
    assert [run.priority for run in claims.runs] == [2] * 100
    assert [run.available_at for run in claims.runs] == sorted(
        run.available_at for run in claims.runs if run.available_at
    )
    clock.advance(timedelta(hours=2))
    claims = await world.claim(worker, limit=100)
    assert len(claims.runs) == 100
    assert claims.next_due is not None
    assert claims.next_due <= clock.now()
    assert full[1].execute("SELECT count(*) FROM runs WHERE ready = 0").fetchone() == (PARKED - PROMOTED_A_CLAIM,)
    await store.close()


@pytest.mark.spec("stepflow.M5", "stepflow.R19")
async def test_recovery_costs_what_the_worker_has(record_property: Callable[[str, object], None]) -> None:
    """Contract: among 10,000 runs of 100 workers one that starts again gets its hundred by index: no row is met by
    reading the table."""
    schema = new_schema()
    address = f"{server_url(schema)}&notices=off&application_name={schema}"
    clock = VirtualClock(START)
    store = await open_postgres(address, clock=clock)
    for number in range(100):
        await World(store, clock).worker(f"i{number}", f"w{number}", definitions=(("order", ""),))
    await store.close()
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute(quoting.SQL("SET search_path = {}").format(quoting.Identifier(schema)))
        connection.execute(HOLD, {"at": micros(START)})
        connection.execute("ANALYZE runs")
        before, asked = await visits(connection, schema)
        store = await open_postgres(address, clock=clock)
        begin = time.perf_counter()
        again = await World(store, clock).worker("again", "w0", definitions=(("order", ""),), takes_over="all")
        taken = await World(store, clock).claim(again, limit=100, only=[f"held-{n * 100}" for n in range(1, 101)])
        took = time.perf_counter() - begin
        await store.close()
        after, asked_then = await visits(connection, schema)
    assert len(taken.runs) == 100
    assert asked_then > asked
    assert after == before
    record_property("figure", f"PostgreSQL: a restart among 10,000 runs of 100 workers: {took * 10:.2f} ms per acquire")


async def visits(connection: psycopg.Connection[tuple[Any, ...]], schema: str) -> tuple[int, int]:
    """How many rows of runs were met by reading the table, and how often an index was asked, by all who are gone: a
    server's process counts when it ends."""
    await until(lambda: connection.execute(CONNECTED, (schema,)).fetchone() == (0,), "the store's connections ended")
    row = connection.execute(VISITS, (schema,)).fetchone()
    assert row is not None
    return row[0], row[1]
