"""The order of locks: whoever waits for a row holds none that comes after it, so that nobody waits in a circle."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import psycopg
import pytest
from psycopg import sql as quoting

from holdfast.adapters.postgres import open_postgres
from holdfast.adapters.postgres.address import parse_address
from holdfast.ports.journal import Committed
from holdfast.ports.runs import Made
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
        world.worker("newest", worker="w", definitions=(("order", ""), ("rare", "")), takes_over="all")
    )
    await other.is_waited_for()
    other.lock("runs", "id", "second")
    for instance in ("older", "newer"):
        other.lock("workers", "instance", instance)
    other.end()
    await registering
    assert {run.instance for run in await world.runs()} == {""}
    assert (await world.get("put off")).bounces == 0


async def test_a_batch_takes_blobs_in_the_order_of_their_names(world: World, other: Other) -> None:
    """Contract: whether a turn brings them itself or with a child, and whichever comes first in the batch."""
    first, last = sorted(BLOBS)
    for data in BLOBS.values():
        await world.store.put_blob(data)
    one, parent = await world.held_run("one"), await world.held_run("parent")
    child = parent.child("child", "k", blob=first, blobs=((first, BLOBS[first]),))
    other.lock("blobs", "name", bytes.fromhex(first))
    batch = [one.turn(blobs={last: BLOBS[last]}), parent.turn(children=(child,))]
    committing = asyncio.ensure_future(world.store.commit(batch))
    await other.is_waited_for()
    other.lock("blobs", "name", bytes.fromhex(last))
    other.end()
    assert all(isinstance(verdict, Committed) for verdict in await committing)


async def test_blobs_that_are_new_to_two_batches_are_stored_without_deadlock(world: World) -> None:
    """Contract: two processes bring the same large payloads, none of which was there, in opposite orders: with turns,
    with new runs. Both get through, and no deadlock is even detected."""
    beside = World(await open_postgres(world.store.url, clock=world.clock), world.clock)
    ways = ((world, "abcd", 1), (beside, "efgh", -1))
    holders = {name: await world.held_run(name) for _, names, _ in ways for name in names}
    before = deadlocks()

    async def bring(via: World, names: str, step: int, number: int) -> None:
        brought = [hashed(b"%d-%d" % (number, place) * 50_000) for place in range(4)][::step]
        turns = [holders[name].turn(blobs={key: data}) for name, (key, data) in zip(names, brought, strict=True)]
        for turn, verdict in zip(turns, await via.store.commit(turns), strict=True):
            assert isinstance(verdict, Committed)
            holders[turn.row.run].accept(turn)

    async def start(via: World, names: str, step: int, number: int) -> None:
        brought = [hashed(b"%d+%d" % (number, place) * 50_000) for place in range(4)][::step]
        for creation in await asyncio.gather(
            *(
                via.create(via.new(f"{name}{number}", blob=key, blobs=((key, data),)))
                for name, (key, data) in zip(names, brought, strict=True)
            )
        ):
            assert isinstance(creation, Made)

    for number in range(15):
        await asyncio.gather(*(way(*one, number) for way in (bring, start) for one in ways))
    assert deadlocks() == before
    await beside.store.close()
    await world.verify()


def hashed(data: bytes) -> tuple[str, bytes]:
    return sha256(data).hexdigest(), data


BLOBS = dict(map(hashed, (b"one", b"other")))


def deadlocks() -> Any:
    with psycopg.connect(server_url()) as connection:
        return connection.execute("SELECT sum(deadlocks) FROM pg_stat_database").fetchone()
