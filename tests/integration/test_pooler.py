"""Behind a transaction pooler: no two transactions of a connection need the same session."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql as quoting

from holdfast import App, Signal, step, transaction, workflow
from holdfast.upkeep.sweep import sweep
from tests.support.pooler import Pooler
from tests.support.postgres import new_schema, server_port, server_url

TIMES = 12  # more than psycopg waits before it would prepare a statement in its session
go = Signal[int]("go")


@step
async def plain(number: int) -> int:
    return number


@step(tx=True)
async def written(table: str, number: int) -> int:
    async with transaction(psycopg.AsyncConnection).cursor() as cursor:
        await cursor.execute(quoting.SQL("INSERT INTO {} VALUES (%s)").format(quoting.Identifier(table)), (number,))
    return number


@workflow
async def child(table: str) -> int:
    return sum([await written(table, number) for number in range(TIMES)])


@workflow
async def parent(table: str) -> int:
    first = await plain(1)
    return first + await child(table) + await go.wait() + await plain(2)


@pytest.mark.parametrize("notices", ["on", "off"])
async def test_a_transaction_pooler_may_stand_between(notices: str) -> None:
    """Promise: making the schema, turns, claims, heartbeats, children, signals, transactions of steps, compaction and
    retention keep nothing in a session, so each transaction may go through another one; and no notice is needed."""
    schema, table = new_schema(), f"written_{new_schema()}"
    with Pooler(server_port()) as pooler, psycopg.connect(server_url(), autocommit=True) as direct:
        name = quoting.Identifier(table)
        direct.execute(quoting.SQL("CREATE TABLE {} (number int)").format(name))
        url = f"{server_url(schema, port=pooler.port)}&notices={notices}"
        app = App(url, workflows=[parent, child], snapshot_every=5, compact_after=5)
        async with app, app.worker(poll="50ms"):
            runs = [await app.start(parent(table), id=f"r{number}") for number in range(3)]
            for run in runs:
                await run.signal(go, 4)
            assert [await run.result("60s") for run in runs] == [7 + sum(range(TIMES))] * 3
            store = (await app.client()).store
            removed = 0
            async with asyncio.timeout(60):
                while removed < 3:  # a sweep leaves out what another transaction holds
                    removed += (await sweep(store, timedelta(0), timedelta(0))).removed.trees
        counting = quoting.SQL("SELECT count(*), count(DISTINCT number) FROM {}").format(name)
        rows = direct.execute(counting).fetchone()
    assert rows == (3 * TIMES, TIMES)
    assert pooler.switches > 3 * TIMES
