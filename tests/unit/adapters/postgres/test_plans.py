"""How PostgreSQL finds things among many rows: claims by their partial indexes, never by looking at all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
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
from tests.support.postgres import new_schema, server_url

PARKED, READY = 100_000, 2_000
A_TIME = 1_000  # rows a transaction: a long one would hold back whoever reads a tree on this server
FILL = """
INSERT INTO runs (id, epoch, next_ordinal, status, workflow, version, claims, instance, available_at, ready, queue,
    priority, worker, key, input_hash, parent, parent_key, root, code, codec, created_at, updated_at, doing)
SELECT %(kind)s || n, 0, 2, 'running', 'order', '', 0, '', %(at)s + n, %(ready)s, 'default', n %% 3, '', '', '', '', '',
    '', '', '', n, n, '' FROM generate_series(1, %(count)s) AS n
"""
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
