"""A fresh PostgreSQL store for each test, on a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.postgres import open_postgres
from holdfast.testing.conformance.world import START, World
from tests.support.postgres import clean_url


@pytest.fixture
async def world() -> AsyncIterator[World]:
    clock = VirtualClock(START)
    store = await open_postgres(clean_url("&notices=off"), clock=clock)
    yield World(store, clock)
    await store.close()
