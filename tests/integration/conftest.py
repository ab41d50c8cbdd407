"""Each test runs on every kind of store: `world` on real time, `still` on a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from tests.support.stuck_thread import Thread
from tests.support.world import Kind, World, open_world

KINDS = ["memory", "sqlite"]


@pytest.fixture(params=KINDS)
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """A store on real time."""
    async with open_world(cast("Kind", request.param), tmp_path, virtual=False) as made:
        yield made


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world("sqlite", tmp_path, virtual=False) as made:
        yield made


@pytest.fixture
async def postgres(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world("postgres", tmp_path, virtual=False) as made:
        yield made


@pytest.fixture(params=["sqlite", "postgres"])
async def shared(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """A store that can share a transaction."""
    async with open_world(cast("Kind", request.param), tmp_path, virtual=False) as made:
        yield made


@pytest.fixture
async def thread() -> AsyncIterator[Thread]:
    made = Thread()
    yield made
    made.may_end.set()


@pytest.fixture(params=KINDS)
async def still(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """A store whose clock stands still until the test moves it."""
    async with open_world(cast("Kind", request.param), tmp_path, virtual=True) as made:
        yield made
