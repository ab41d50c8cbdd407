"""A worker that stops: bodies end, runs are given back, and the grace bounds it all."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import patch

import pytest

from holdfast import App, Status, current, step, workflow
from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.memory.store import MemoryStore
from holdfast.testing.virtual_loop import VirtualLoop
from holdfast.worker.worker import Worker
from tests.support.faults import FaultyStore
from tests.support.world import START, BeatingWhenTold, World, events, stop


@pytest.mark.spec("openworkflow.O32", "stepflow.R11")
async def test_a_stopping_worker_lets_bodies_end_and_gives_runs_back(world: World) -> None:
    """Promise: shutdown claims nothing more, journals what is running, begins no further step, releases at once."""
    entered, leave = asyncio.Event(), asyncio.Event()
    ran: list[str] = []
    attempts: list[int] = []

    @step
    async def first() -> str:
        ran.append("first")
        entered.set()
        await leave.wait()
        return "1"

    @step
    async def second() -> str:
        ran.append("second")
        attempts.append(current().attempt)
        return "2"

    @workflow
    async def work() -> str:
        return await first() + await second()

    app = world.app(work)
    async with world.worker(app) as worker:
        run = await app.start(work())
        await world.until_set(entered)
        stopping = asyncio.create_task(stop(worker))
        await world.until(lambda: worker.is_stopping)
        late = await app.start(work())
        leave.set()
        await stopping
        row = await world.row(run)
        assert row.instance == ""
        assert ran == ["first"]
        assert await late.status() is Status.PENDING
    async with world.worker(app):
        assert await run.result("60s") == "12"
        assert await late.result("60s") == "12"
    assert sorted(ran) == ["first", "first", "second", "second"]
    assert attempts == [1, 1]
    claimed = [x.data for x in await events(run) if x.type == "claimed"]
    assert not claimed[1].get("restarted"), "a step that had not begun is not an attempt cut off"


@pytest.mark.spec("openworkflow.O33")
async def test_shutdown_has_a_grace(world: World) -> None:
    """Promise: a body that does not end within the grace is dropped; the run goes to somebody else at once."""
    entered = asyncio.Event()

    @step
    async def stuck() -> int:
        if current().attempt == 1:
            entered.set()
            await asyncio.Event().wait()
        return current().attempt

    @workflow
    async def work() -> int:
        return await stuck()

    app = world.app(work)
    async with world.worker(app, grace="20ms"):
        run = await app.start(work())
        await world.until_set(entered)
    async with world.worker(app):
        assert await run.result("60s") == 2


def test_the_grace_is_one_for_claims_and_bodies() -> None:
    """Promise: a claim that the store does not answer and a body that does not end are waited for together, no longer
    than the grace; and meanwhile no further step begins."""
    clock = VirtualClock(START)
    loop, faulty = VirtualLoop(clock), FaultyStore(MemoryStore(clock))
    entered, leave, silent = asyncio.Event(), asyncio.Event(), asyncio.Event()
    ran: list[str] = []

    @step
    async def note(text: str) -> None:
        ran.append(text)
        entered.set()
        await (leave if text == "first" else asyncio.Event()).wait()

    @workflow
    async def work(*texts: str) -> None:
        for text in texts:
            await note(text)

    async def unanswered(name: str, _: tuple[Any, ...]) -> None:
        if name == "claim" and ran:
            silent.set()
            await asyncio.Event().wait()

    async def story() -> float:
        faulty.before = unanswered
        app = App(workflows=[work], store=faulty.store)
        async with app.worker(grace="30s", ttl="1000d") as worker:
            await app.start(work("first", "second"))
            await app.start(work("stuck"))
            await entered.wait()
            await silent.wait()
            began = loop.time()
            stopping = asyncio.create_task(worker.stop())
            await asyncio.sleep(1)
            leave.set()
            await stopping
            return loop.time() - began

    with patch.object(Worker, "heartbeat", BeatingWhenTold):
        assert loop.finish(story(), "the story") == pytest.approx(30)
    loop.end()
    assert sorted(ran) == ["first", "stuck"]
