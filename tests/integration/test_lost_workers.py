"""What is said of runs whose worker has gone."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Retry, RunFailed, Signal, current, step, workflow
from holdfast.client.inspect.story import read_story
from tests.support.world import World, crash

LEASE = "15s"
approved = Signal[bool]("approved")


class Packing:
    """Set when the step has begun. Each test has a loop and an event of its own."""

    begun: asyncio.Event


@step(retry=Retry.none)
async def pack() -> None:
    Packing.begun.set()
    if current().attempt == 1:
        await asyncio.Event().wait()
    raise ValueError("no boxes")


@workflow
async def order() -> None:
    await pack()


@pytest.fixture(autouse=True)
def _unpacked() -> None:
    Packing.begun = asyncio.Event()


async def cut_off(world: World) -> None:
    """Leaves the run `r` in the hands of a worker that died in its step."""
    app = world.app(order)
    async with world.worker(app, id="w1", ttl=LEASE) as worker:
        await app.start(order(), id="r")
        await asyncio.wait_for(Packing.begun.wait(), 60)
        assert (await (await app.get("r")).view()).waiting == "step pack"
        await crash(worker)
    world.clock.advance(60)


async def test_a_run_whose_worker_has_gone_says_so(still: World) -> None:
    """Promise: no "running: step pack" long after the worker died, in lists, in `show` and in `view`."""
    await cut_off(still)
    app = still.app(order)
    said = "step pack (cut off: worker w1 has gone; no worker is live. Start one: holdfast worker)"
    assert (await (await app.get("r")).view()).waiting == said
    assert [view.waiting async for view in app.runs()] == [said]
    assert (await read_story(await app.client(), "r")).view.waiting == said


async def test_a_signal_that_no_worker_has_taken_is_told(still: World) -> None:
    """Promise: no bare "waiting for signal approved" after the signal was sent, while no worker is there."""

    @workflow
    async def asks() -> bool:
        return await approved.wait()

    app = still.app(asks)
    async with still.worker(app):
        run = await app.start(asks(), id="r")
        await still.until_parked(run)
    assert (await run.view()).waiting == "waiting for signal approved"
    await run.signal(approved, True)
    told = "waiting for signal approved (1 message has arrived; no worker is live. Start one: holdfast worker)"
    assert (await run.view()).waiting == told
    async with still.worker(app):
        assert await run.result("60s")


async def test_an_attempt_has_one_number(still: World) -> None:
    """Promise: the error says the number that the timeline says, also if a crash cut an earlier attempt off."""
    await cut_off(still)
    app = still.app(order)
    async with still.worker(app, id="w2", ttl=LEASE) as worker:
        await still.beat(worker)
        with pytest.raises(RunFailed, match="step pack failed after 2 attempts: ValueError: no boxes"):
            await (await app.get("r")).result("60s")
    line = (await read_story(await app.client(), "r")).line
    assert [(x.attempt, x.outcome) for x in line.entries if x.kind == "step"] == [(1, "cut off"), (2, "failed")]
