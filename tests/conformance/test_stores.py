"""The stores of Holdfast, bound to the suites it ships; and what the suites promise to whoever binds another store."""

from __future__ import annotations

from pathlib import Path

from holdfast.adapters.memory.store import MemoryStore
from holdfast.adapters.postgres import open_postgres
from holdfast.adapters.sqlite import open_sqlite
from holdfast.ports.store import Store
from holdfast.testing.conformance import StoreSuite, VirtualClock
from tests.support.postgres import clean_url


class TestMemory(StoreSuite):
    async def open(self, clock: VirtualClock, folder: Path) -> Store:
        return MemoryStore(clock)


class TestSqlite(StoreSuite):
    async def open(self, clock: VirtualClock, folder: Path) -> Store:
        return await open_sqlite(folder / "store.db", clock=clock)


class TestPostgres(StoreSuite):
    async def open(self, clock: VirtualClock, folder: Path) -> Store:
        return await open_postgres(clean_url("&notices=off"), clock=clock)


def test_no_case_hides_another() -> None:
    """Promise: cases of one name in two suites would leave one of them unrun."""
    names = [name for suite in StoreSuite.__bases__ for name in vars(suite) if name.startswith("test_")]
    assert sorted(names) == sorted(set(names))
