"""How long a claim takes among many runs that have ended and many that wait: by index, so as long as among few.

`HOLDFAST_TEST_ROWS=1000000` is the size that was promised (a million ended, a hundred thousand parked); the suite looks
at a smaller one, where the same plans hold. The times are told, not asserted: how long a write of one row took in the
same moments says how much of them is the machine's.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

import psycopg
import pytest
from psycopg import sql as quoting

from holdfast.adapters.postgres import open_postgres
from holdfast.adapters.sqlite import open_sqlite
from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite.transaction import Transaction
from holdfast.core.turn import micros
from holdfast.ports.leases import WorkerRow
from holdfast.ports.store import Store
from holdfast.testing.conformance.world import request
from tests.support.postgres import new_schema, server_url
from tests.unit.adapters.sqlite.test_plans import plan

ENDED = int(os.environ.get("HOLDFAST_TEST_ROWS", "50000"))
PARKED, CLAIMS = ENDED // 10, 200
A_TIME = 25_000  # rows a transaction: a long one would hold back whoever reads a tree on this server

COLUMNS = """
INSERT INTO runs (id, epoch, next_ordinal, status, workflow, version, inbox_last, inbox_read, claims, instance,
    available_at, ready, queue, priority, worker, bounces, note, key, input_hash, parent, parent_key, root, code, codec,
    created_at, updated_at, ended_at, doing)
"""
SQLITE = f"""
WITH RECURSIVE count (n) AS (SELECT ?4 UNION ALL SELECT n + 1 FROM count WHERE n < ?5)
{COLUMNS}
SELECT ?1 || n, 0, 2, ?2, 'order', '', 0, 0, 0, '', ?6, ?3, 'default', 0, '', 0, '', '', '', '', '', '', '', '',
    ?7, ?7, iif(?3 IS NULL, ?7, NULL), x'' FROM count
"""  # noqa: S608 made of constants
POSTGRES = f"""
{COLUMNS}
SELECT %(kind)s::text || n, 0, 2, %(status)s, 'order', '', 0, 0, 0, '', %(due)s::bigint, %(ready)s::int,
    'default', 0, '', 0, '', '', '', '', '', '', '', '', %(now)s,
    %(now)s, CASE WHEN %(ready)s::int IS NULL THEN %(now)s::bigint END, ''
FROM generate_series(%(first)s::int, %(last)s::int) AS n
"""  # noqa: S608 made of constants
CLAIMED = """SELECT no FROM runs WHERE ready = 1 AND queue = 'default' AND workflow = 'order' AND version = ''
    AND available_at <= 9000000000000000 ORDER BY priority DESC, available_at, no LIMIT 150"""
PROMOTED = """SELECT no FROM runs WHERE ready = 0 AND queue = 'default' AND available_at <= 0
    ORDER BY available_at LIMIT 500"""


class Some(NamedTuple):
    """Runs of one kind: ended (not in any queue), parked (due in a day) or ready."""

    kind: str
    status: str
    ready: int | None
    number: int
    due: int | None


def kinds(now: int) -> list[Some]:
    day = 86_400_000_000
    return [
        Some("ended-", "completed", None, ENDED, None),
        Some("parked-", "running", 0, PARKED, now + day),
        Some("ready-", "pending", 1, CLAIMS, now - day),
    ]


class Full(NamedTuple):
    """A store with many rows, and the plans of what a claim asks."""

    name: str
    store: Store
    plans: list[str]


@pytest.fixture(params=["sqlite", "postgres"])
async def full(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Full]:
    made = await (_sqlite(tmp_path) if request.param == "sqlite" else _postgres())
    try:
        yield made
    finally:
        await made.store.close()


async def _sqlite(folder: Path) -> Full:
    store = await open_sqlite(folder / "full.db")
    now = micros(store.clock.now())
    await vars(store)["_writer"].run(partial(_fill, now=now), is_large=True)
    return Full("SQLite", store, ["\n".join(plan(store, x)) for x in (sql.READY, sql.PROMOTE, sql.NEXT_DUE)])


def _fill(transaction: Transaction, now: int) -> None:
    for some in kinds(now):
        transaction.run(SQLITE, (some.kind, some.status, some.ready, 1, some.number, some.due, now))


async def _postgres() -> Full:
    schema = new_schema()
    store = await open_postgres(server_url(schema) + "&notices=off")
    now = micros(store.clock.now())
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute(quoting.SQL("SET search_path = {}").format(quoting.Identifier(schema)))
        for some in kinds(now):
            for first in range(1, some.number + 1, A_TIME):
                last = min(first + A_TIME - 1, some.number)
                connection.execute(POSTGRES, {**some._asdict(), "now": now, "first": first, "last": last})
        connection.execute("ANALYZE runs")
        asked = [connection.execute(f"EXPLAIN {one}".encode()).fetchall() for one in (CLAIMED, PROMOTED)]
        plans = ["\n".join(line for (line,) in lines) for lines in asked]
    return Full("PostgreSQL", store, plans)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_claim_among_many_is_found_by_index(full: Full, record_property: Callable[[str, object], None]) -> None:
    """Promise: no plan of a claim looks at all runs; each of two hundred claims gets the run that is next."""
    for text in full.plans:
        assert "runs_ready" in text or "runs_due" in text, text
        assert "Seq Scan" not in text, text
        assert "SCAN runs" not in text, text
    now = full.store.clock.now()
    worker = WorkerRow(
        instance="i", worker="w", queues=("default",), definitions=(("order", ""),), pid=0, host="", started_at=now
    )
    taken: list[str] = []
    claiming: list[float] = []
    writing: list[float] = []
    for _ in range(CLAIMS):
        began = time.perf_counter()
        claims = await full.store.claim(request(worker, limit=1))
        claiming.append(time.perf_counter() - began)
        taken += [run.id for run in claims.runs]
        began = time.perf_counter()
        assert await full.store.take_duty("beside", holder="i", ttl=timedelta(seconds=60))
        writing.append(time.perf_counter() - began)
    assert sorted(taken) == sorted(f"ready-{number}" for number in range(1, CLAIMS + 1))
    size = f"{ENDED:,} ended and {PARKED:,} parked runs"
    said = f"a claim {percentiles(claiming)}; beside it a write of one row {percentiles(writing)}"
    record_property("figure", f"{full.name}: among {size}, {said}")


def percentiles(seconds: list[float]) -> str:
    """In milliseconds."""
    cuts = quantiles(seconds, n=100, method="inclusive")
    return ", ".join(f"p{which} {cuts[which - 1] * 1e3:.1f} ms" for which in (50, 90, 99))
