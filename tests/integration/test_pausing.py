"""Pause and resume, in every status a run may have."""

from __future__ import annotations

import asyncio

from holdfast import Signal, Status, step, workflow
from tests.support.world import World, events

go = Signal[int]("go")


@workflow
async def waits() -> int:
    return await go.wait()


async def test_pause_and_resume(world: World) -> None:
    """Promise: a paused run stands still, says why and by whom, keeps signals, and goes on when resumed."""
    app = world.app(waits)
    async with world.worker(app):
        run = await app.start(waits())
        await world.until_parked(run)
        await run.pause("looking at it")
        assert await run.status() is Status.PAUSED
        assert "paused (operator): looking at it" in (await run.view()).waiting
        await run.pause("again")
        await run.signal(go, 5)
        other = await app.start(waits())
        await other.signal(go, 1)
        await other.result("60s")
        assert await run.status() is Status.PAUSED
        await run.resume()
        assert await run.result("60s") == 5
    paused = next(x.data for x in await events(run) if x.type == "paused")
    assert paused["actor"]


async def test_a_running_run_is_paused_at_its_next_quiet_moment(world: World) -> None:
    """Promise: the body in flight ends and is journaled, the next one is not begun before the resume."""
    entered, leave = asyncio.Event(), asyncio.Event()
    seen: list[str] = []

    @step
    async def first() -> None:
        seen.append("first")
        entered.set()
        await leave.wait()

    @step
    async def second() -> None:
        seen.append("second")

    @workflow
    async def work() -> str:
        await first()
        await second()
        return "end"

    async with world.serving(work) as app:
        run = await app.start(work())
        await world.until_set(entered)
        await run.pause()
        leave.set()
        await world.until_status(run, "paused")
        assert seen == ["first"]
        await run.resume()
        assert await run.result("60s") == "end"
    assert seen == ["first", "second"]


async def test_resume_of_a_run_that_goes_on_disturbs_nothing(world: World) -> None:
    """Promise: `resume` of a run that is not paused does nothing: its holder keeps it, its body runs on."""
    entered, leave = asyncio.Event(), asyncio.Event()
    ran: list[int] = []

    @step
    async def slow() -> int:
        ran.append(1)
        entered.set()
        await leave.wait()
        return 1

    @workflow
    async def work() -> int:
        return await slow()

    async with world.serving(work) as app:
        run = await app.start(work())
        await world.until_set(entered)
        await run.resume()
        leave.set()
        assert await run.result("60s") == 1
    assert ran == [1]
    assert (await world.row(run)).epoch == 1


async def test_a_pending_run_can_be_paused(world: World) -> None:
    """Promise: pause before the start holds the start back."""
    app = world.app(waits)
    run = await app.start(waits())
    await run.pause()
    assert await run.status() is Status.PAUSED
    async with world.worker(app):
        await run.signal(go, 3)
        await run.resume()
        assert await run.result("60s") == 3


async def test_a_paused_run_can_be_cancelled_and_killed(world: World) -> None:
    """Promise: pause does not protect from the end: kill is at once, cancel takes effect, at the latest at resume."""
    app = world.app(waits)
    async with world.worker(app):
        killed = await app.start(waits())
        await world.until_parked(killed)
        await killed.pause()
        await killed.kill()
        assert await killed.status() is Status.CANCELLED
        run = await app.start(waits())
        await world.until_parked(run)
        await run.pause()
        await run.cancel("while paused")
        if await run.status() is Status.PAUSED:
            await run.resume()
        assert await run.wait("60s") is Status.CANCELLED
