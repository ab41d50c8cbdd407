"""Several servers: which of them is the store, and what becomes of it when another one takes over."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.postgres import open_postgres
from holdfast.errors import StoreRefused
from holdfast.testing.conformance.world import START, World
from tests.support.postgres import server_url
from tests.support.postgres_guard import Server

SCHEMA = "several"


async def opened(url: str) -> World:
    clock = VirtualClock(START)
    return World(await open_postgres(url, clock=clock), clock)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    """A primary whose store has one run, and a standby that has the same."""
    for name in ("primary", "standby"):
        (tmp_path / name).mkdir()
    primary, standby = Server(tmp_path / "primary"), Server(tmp_path / "standby")
    primary.make()
    primary.start()

    async def fill() -> None:
        world = await opened(server_url(SCHEMA, port=primary.port) + "&notices=off")
        await world.make("early")
        await world.store.close()

    asyncio.run(fill())
    primary.stop()
    standby.follow(primary)
    for server in (primary, standby):
        server.start()
    yield primary, standby
    for server in (primary, standby):
        server.stop()


def test_a_standby_is_no_store_and_its_primary_is_found(servers: tuple[Server, Server]) -> None:
    """Contract: a server in recovery is refused, whatever it holds. Of several in one address the one that can be
    written is used, wherever it stands; when another one is promoted, the same store goes on there."""
    asyncio.run(_fail_over(*servers))


async def _fail_over(primary: Server, standby: Server) -> None:
    with pytest.raises(StoreRefused, match="this server is a standby"):
        await open_postgres(server_url(SCHEMA, port=standby.port))
    places = ",".join(f"127.0.0.1:{server.port}" for server in (standby, primary))
    world = await opened(f"postgresql://postgres@{places}/postgres?schema={SCHEMA}&notices=off")
    holder = await world.holder("early")
    await holder.commits()
    await asyncio.to_thread(primary.stop, signal.SIGQUIT)
    with psycopg.connect(server_url(port=standby.port), autocommit=True) as connection:
        assert connection.execute("SELECT pg_promote()").fetchone() == (True,)
    row = await world.get("early")
    assert (row.epoch, row.next_ordinal) == (0, 2)  # what had not reached the standby is lost, and it says so
    await world.make("late")
    await world.verify()
    await world.store.close()
