"""The stores of Holdfast, bound to the suites it ships; and what the suites promise to whoever binds another store. The
memory store is bound suite by suite, in `test_one_port.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.adapters.memory.grants import MemoryGrants
from holdfast.adapters.memory.store import MemoryStore
from holdfast.adapters.postgres import open_postgres
from holdfast.adapters.postgres.address import parse_address
from holdfast.adapters.sqlite import open_sqlite
from holdfast.ports.grants import Grants
from holdfast.ports.store import Store
from holdfast.testing.conformance import (
    DamageSuite,
    GrantsSuite,
    StoreGrants,
    StoreSuite,
    TransactionsSuite,
    VirtualClock,
    World,
)
from holdfast.testing.conformance.world import START, settle
from tests.support.damage import write_postgres, write_sqlite
from tests.support.kept_connections import connections_kept
from tests.support.postgres import clean_url, server_url
from tests.support.sqlite import open_copy


@pytest.fixture(autouse=True)
def few_connections() -> Iterator[None]:
    """The suites are about what a store does. How it connects has tests of its own, in `tests/unit/adapters`."""
    with connections_kept():
        yield


async def open_store(kind: str, clock: VirtualClock) -> Store:
    """A new, empty store; the SQLite one need not survive a power cut, and is faster for it."""
    match kind:
        case "memory":
            return MemoryStore(clock)
        case "sqlite":
            return await open_sqlite("sqlite:///:memory:", clock=clock)
        case _:
            return await open_postgres(clean_url("&notices=off"), clock=clock)


class TestSqlite(StoreSuite, DamageSuite):
    async def open(self, clock: VirtualClock, folder: Path) -> Store:
        self.path = folder / "store.db"
        return await open_copy(self.path, clock)

    async def write(self, world: World, table: str, column: str, value: object, where: tuple[str, object]) -> Any:
        return write_sqlite(self.path, table, column, value, where)


class TestPostgres(StoreSuite, TransactionsSuite, DamageSuite):
    async def open(self, clock: VirtualClock, folder: Path) -> Store:
        self.url = clean_url("&notices=off")
        return await open_postgres(self.url, clock=clock)

    async def write(self, world: World, table: str, column: str, value: object, where: tuple[str, object]) -> Any:
        return write_postgres(parse_address(self.url).schema, table, column, value, where)


class TestMemoryGrants(GrantsSuite):
    async def open(self, clock: VirtualClock) -> Grants:
        return MemoryGrants(clock)

    async def reopen(self, grants: Grants) -> Grants:
        assert isinstance(grants, MemoryGrants)
        return MemoryGrants(of=grants)


class TestStoreGrants(GrantsSuite):
    """The leases of a store keep the contract of a manager apart."""

    @pytest.fixture(params=["memory", "sqlite", "postgres"], autouse=True)
    def kind(self, request: pytest.FixtureRequest) -> None:
        self.opened = request.param

    async def open(self, clock: VirtualClock) -> Grants:
        self.store = await open_store(self.opened, clock)
        grants = StoreGrants(self.store)
        await grants.prepare()
        return grants

    async def reopen(self, grants: Grants) -> None:
        """None: these workers are instances, and each instance has an id of its own."""

    async def close(self) -> None:
        await self.store.close()


def test_no_case_hides_another() -> None:
    """Promise: cases of one name in two suites would leave one of them unrun."""
    names = [
        name
        for suite in (*StoreSuite.__bases__, TransactionsSuite, DamageSuite)
        for name in vars(suite)
        if name.startswith("test_")
    ]
    assert sorted(names) == sorted(set(names))


@pytest.mark.server
async def test_a_transaction_elsewhere_only_delays_a_case() -> None:
    """Promise: `settle` waits until readers see what is committed, whatever else is open on the same server."""
    clock = VirtualClock(START)
    store = await open_store("postgres", clock)
    try:
        world = World(store, clock)
        with psycopg.connect(server_url()) as elsewhere:
            elsewhere.execute("SELECT pg_current_xact_id()")
            await world.make("r")
            assert await store.read_tree("r") == []
            settling = asyncio.create_task(settle(store, "r"))
            await asyncio.wait([settling], timeout=0.1)
            assert not settling.done()
            elsewhere.commit()
            await settling
        assert [row.run for row in await store.read_tree("r")] == ["r"]
    finally:
        await store.close()
