"""A store in a file, on a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.sqlite import SqliteStore, open_sqlite
from holdfast.testing.conformance.world import START, World


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
async def store(path: Path, clock: VirtualClock) -> AsyncIterator[SqliteStore]:
    opened = await open_sqlite(path, clock=clock)
    yield opened
    await opened.close()


@pytest.fixture
def world(store: SqliteStore, clock: VirtualClock) -> World:
    return World(store, clock)
