"""A fresh store for each test, of every kind there is, on a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.ports.store import Store
from tests.conformance.world import START, World


async def open_store(kind: str, folder: Path | None, clock: VirtualClock) -> Store:
    """A new, empty store. Without a folder it need not survive a power cut, and is faster for it."""
    if kind == "memory":
        from holdfast.adapters.memory.store import MemoryStore

        return MemoryStore(clock)
    from holdfast.adapters.sqlite import open_sqlite

    return await open_sqlite(folder / "store.db" if folder else "sqlite:///:memory:", clock=clock)


@pytest.fixture(params=["memory", "sqlite"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """Contract of every test: whatever it did, at its end each row equals the fold of its journal."""
    clock = VirtualClock(START)
    store = await open_store(request.param, tmp_path, clock)
    made = World(store, clock)
    yield made
    await made.verify()
    await store.close()
