"""Workflows end to end on PostgreSQL: what matters there beyond the suites every store passes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast import RunCancelled, Signal, Status, step, workflow
from tests.support.world import World, open_world

go = Signal[str]("go")


@step
async def double(number: int) -> int:
    return number * 2


@workflow
async def child(number: int) -> int:
    return await double(number)


@workflow
async def parent(count: int) -> list[int]:
    return list(await asyncio.gather(*(child(number) for number in range(count))))


@workflow
async def waiting() -> str:
    return await go.wait()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world("postgres", tmp_path, virtual=False) as made:
        yield made


async def test_children_come_back_in_order(world: World) -> None:
    """Promise: a parent and its children, made and ended in many small transactions, lose nothing."""
    app = world.app(parent, child)
    async with world.worker(app):
        run = await app.start(parent(20))
        assert await run.result(timeout="60s") == [number * 2 for number in range(20)]


async def test_a_signal_from_another_client_wakes_a_parked_run(world: World) -> None:
    """Promise: whoever sends, wherever; the run goes on with what was sent."""
    app, other = world.app(waiting), world.app(waiting)
    async with world.worker(app):
        run = await app.start(waiting(), id="w")
        await (await other.get("w", waiting)).signal(go, "now")
        assert await run.result(timeout="60s") == "now"


async def test_a_waiting_run_is_cancelled(world: World) -> None:
    """Promise: cancel reaches a run that nobody holds."""
    app = world.app(waiting)
    async with world.worker(app):
        run = await app.start(waiting())
        await run.cancel("changed our minds")
        with pytest.raises(RunCancelled):
            await run.result(timeout="60s")


async def test_two_workers_share_the_work(world: World) -> None:
    """Promise: of two workers on one store each run is done once."""
    app, other = world.app(child), world.app(child)
    async with world.worker(app, concurrency=5), world.worker(other, concurrency=5):
        runs = [await app.start(child(number), id=f"c{number}") for number in range(40)]
        assert [await run.result(timeout="60s") for run in runs] == [number * 2 for number in range(40)]
    counts = await world.store.count()
    assert counts[Status.COMPLETED] == 40
