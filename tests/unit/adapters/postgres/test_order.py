"""The order of locks: whoever waits for a row holds none that comes after it, so that nobody waits in a circle."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql as quoting

from holdfast.adapters.postgres.address import parse_address
from holdfast.testing.conformance.world import World
from tests.support.postgres import server_url


class Other:
    """Somebody else's transaction in the schema of the store."""

    def __init__(self, world: World, connection: psycopg.Connection[Any]) -> None:
        self._schema = parse_address(world.store.url).schema
        self._connection = connection

    def lock(self, table: str, column: str, value: object) -> None:
        """A row; refused if somebody has it."""
        statement = quoting.SQL("SELECT 1 FROM {} WHERE {} = %s FOR NO KEY UPDATE NOWAIT")
        rows = self._connection.execute(
            statement.format(quoting.Identifier(self._schema, table), quoting.Identifier(column)), (value,)
        ).fetchall()
        assert len(rows) == 1

    def end(self) -> None:
        """Lets go of everything."""
        self._connection.rollback()

    async def is_waited_for(self) -> None:
        """Until somebody stands before it."""
        async with asyncio.timeout(30):
            while self._connection.execute(_WAITING).fetchone() != (True,):  # noqa: ASYNC110 the server tells nobody
                await asyncio.sleep(0.01)


_WAITING = "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid)))"


@pytest.fixture
def other(world: World) -> Iterator[Other]:
    with psycopg.connect(server_url()) as connection:
        yield Other(world, connection)


@pytest.mark.parametrize("waited_for", ["put off", "first"])
async def test_a_worker_that_registers_takes_runs_in_their_order(world: World, other: Other, waited_for: str) -> None:
    """Contract: the runs of all whom it takes over from and those it recalls, in one order, and then the rows of
    workers: as commits do, and whoever gives back its runs and ends."""
    await world.make("put off", "rare")
    await world.claim(await world.worker("i1"))
    for instance in ("older", "newer"):
        await world.worker(instance, worker="w")
    await world.held_run("first", instance="newer")
    await world.held_run("second", instance="older")
    other.lock("runs", "id", waited_for)
    registering = asyncio.ensure_future(
        world.worker("newest", worker="w", definitions=(("order", ""), ("rare", "")), takes_over=True)
    )
    await other.is_waited_for()
    other.lock("runs", "id", "second")
    for instance in ("older", "newer"):
        other.lock("workers", "instance", instance)
    other.end()
    await registering
    assert {run.instance for run in await world.runs()} == {""}
    assert (await world.get("put off")).bounces == 0
