"""A run that nothing can wake says so, with the line it stands at, instead of waiting forever."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
from typing import Any

import pytest

from holdfast import RunCancelled, RunFailed, Signal, Status, start, step, workflow
from holdfast.errors import Stuck
from holdfast.testing import Sim
from tests.support.world import World

go = Signal[int]("go")
shared = asyncio.Lock()


@step
async def work() -> int:
    return 1


@workflow
async def waits_for_nothing() -> None:
    await work()
    await asyncio.Event().wait()  # here


@workflow
async def waits_for_nothing_at_once() -> None:
    await asyncio.get_running_loop().create_future()  # here


async def deep() -> None:
    await asyncio.Event().wait()  # here


@workflow
async def waits_in_a_task() -> None:
    await asyncio.gather(work(), deep())


@workflow
async def child() -> int:
    return await go.wait()


@workflow
async def starts_a_child() -> None:
    start(child(), id="the-child")
    await asyncio.Event().wait()  # here


@workflow
async def waits_for_both() -> int:
    event = asyncio.Event()

    async def listen() -> None:
        await go.wait()
        event.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(listen())
        await event.wait()
    return 1


@workflow
async def gives_up() -> str:
    try:
        async with asyncio.timeout(60):
            await asyncio.Event().wait()
    except TimeoutError:
        return "gave up"
    return ""


@workflow
async def locks(name: str) -> str:
    async with shared:
        await go.wait()
    return name


def line_of(function: Any) -> str:
    lines, first = inspect.getsourcelines(function)
    return f"test_stuck.py:{first + next(i for i, line in enumerate(lines) if '# here' in line)}"


@pytest.mark.parametrize(
    ("workflow", "holder"),
    [
        (waits_for_nothing, waits_for_nothing.function),
        (waits_for_nothing_at_once, waits_for_nothing_at_once.function),
        (waits_in_a_task, deep),
    ],
)
async def test_a_run_that_nothing_can_wake_is_paused_with_its_line(world: World, workflow: Any, holder: Any) -> None:
    """Promise: paused as stuck, with the author's innermost line; resumed without a fix it is paused again."""
    app = world.app(workflow)
    async with world.worker(app):
        run = await app.start(workflow())
        for _ in range(2):
            await world.until_status(run, Status.PAUSED)
            said = (await run.view()).waiting
            assert said.startswith("paused (stuck): nothing can wake it"), said
            assert line_of(holder) in said
            await run.resume()
        await world.until_status(run, Status.PAUSED)
        await run.kill()


async def test_a_stuck_run_can_be_cancelled(world: World) -> None:
    """Promise: cancel reaches the line that waits, without a resume; a run that an operator paused stays paused."""
    app = world.app(waits_for_nothing, waits_for_both)
    async with world.worker(app):
        run = await app.start(waits_for_nothing())
        await world.until_status(run, Status.PAUSED)
        held = await app.start(waits_for_both())
        await held.pause("stock-taking")
        await world.until_status(held, Status.PAUSED)
        await held.cancel()
        await run.cancel("no longer wanted")
        with pytest.raises(RunCancelled, match="no longer wanted"):
            await run.result("60s")
        assert await held.status() is Status.PAUSED
        await held.kill()


async def test_what_can_still_be_woken_is_not_stuck(still: World) -> None:
    """Promise: a timeout, a message, a child that was started: each may bring the run on."""
    app = still.app(waits_for_both, gives_up, starts_a_child, child)
    async with still.worker(app):
        both, gone = await app.start(waits_for_both()), await app.start(gives_up())
        parent = await app.start(starts_a_child())
        for run in (both, gone, parent):
            await still.until_parked(run)
            assert await run.status() is Status.RUNNING
        assert "timeout of its own" in (await gone.view()).waiting
        await both.signal(go, 1)
        assert await both.result("60s") == 1
        await still.advance("61s")
        assert await gone.result("60s") == "gave up"
        await (await app.get("the-child")).signal(go, 1)
        await still.until_status(parent, Status.PAUSED)  # now nothing is left


async def test_with_a_deadline_it_says_what_ends_it(still: World) -> None:
    """Promise: the deadline will end it, so it is not paused, and `waiting` says that nothing else will."""
    app = still.app(waits_for_nothing)
    async with still.worker(app):
        run = await app.start(waits_for_nothing(), deadline="5m")
        await still.until_waiting(run, "or for its deadline, 5 min left; nothing else can wake it")
        await still.advance("6m")
        with pytest.raises(RunFailed, match="deadline"):
            await run.result("60s")


async def test_a_lock_that_another_run_holds(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: the run that waits for it is stuck; the one that holds it is not disturbed."""
    monkeypatch.setitem(globals(), "shared", asyncio.Lock())
    app = world.app(locks)
    async with world.worker(app):
        first = await app.start(locks("first"))
        await world.until_waiting(first, "signal go")
        second = await app.start(locks("second"))
        await world.until_status(second, Status.PAUSED)
        await first.signal(go, 1)
        assert await first.result("60s") == "first"
        await second.resume()
        await second.signal(go, 1)
        assert await second.result("60s") == "second"


def test_the_simulation_raises_at_once() -> None:
    with Sim() as sim:
        with pytest.raises(Stuck, match=line_of(waits_for_nothing.function).replace(".", r"\.")):
            sim.start(waits_for_nothing())
        [view] = sim.runs()
        assert view.status is Status.PAUSED


async def test_the_future_of_a_thread_is_refused(world: World) -> None:
    """Promise: what another thread brings is not in the journal; the error says what to do."""

    @workflow
    async def wraps() -> None:
        await asyncio.wrap_future(concurrent.futures.Future())

    app = world.app(wraps)
    async with world.worker(app):
        with pytest.raises(RunFailed, match=r"wrap_future.*step"):
            await (await app.start(wraps())).result("60s")
