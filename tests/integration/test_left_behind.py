"""What is left in memory of runs that have gone: nothing, but for programs that refuse to end, which are reported."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable, Iterator

import pytest

from holdfast import Signal, sleep, step, workflow
from holdfast.authoring.script.loop import DurableLoop
from holdfast.authoring.script.script_program import ScriptProgram
from holdfast.engine.engine import Engine
from holdfast.engine.session import Session
from holdfast.turn.machine import Machine
from tests.support.world import World

go = Signal[int]("go")


async def test_a_body_that_refuses_to_end_is_reported_and_does_nothing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise: code that swallows everything in a loop keeps no worker from stopping, acts no more, and is named."""
    ran: list[str] = []

    @step
    async def effect() -> None:
        ran.append("effect")

    @workflow
    async def stubborn() -> None:
        while True:
            with contextlib.suppress(BaseException):  # the mistake this test is about
                try:
                    await go.wait()
                finally:
                    await effect()

    async with world.serving(stubborn) as app:
        run = await app.start(stubborn(), id="stubborn")
        await world.until_waiting(run, "signal go")
        await world.until_parked(run)
    assert [x.getMessage() for x in caplog.records if "stubborn: its body would not end" in x.getMessage()]
    assert ran == []


async def test_nothing_of_an_ended_run_stays_in_memory_for_the_time_it_would_have_had(still: World) -> None:
    """Promise: a step that took a moment and might have taken an hour, in a run that might have taken a day, is gone
    when it is done: a busy worker would hold an hour's runs otherwise."""

    @step(timeout="1h")
    async def work(number: int) -> int:
        return number

    @workflow(deadline="1d")
    async def long(number: int) -> int:
        return await work(number)

    async with still.serving(long) as app:
        runs = [await app.start(long(number)) for number in range(50)]
        assert [await run.result("30s") for run in runs] == list(range(50))
        gc.collect()
        assert [x.run.id for x in gc.get_objects() if isinstance(x, Session) and _is_in(x, still)] == []


def _is_in(session: Session, world: World) -> bool:
    return isinstance(session.home, Engine) and session.home.store is world.store


@pytest.fixture
def uncollected() -> Iterator[Callable[[], int]]:
    """How many sessions and programs are in memory that were not before, with the garbage collector switched off."""

    def held() -> int:
        return sum(isinstance(found, Session | Machine | ScriptProgram | DurableLoop) for found in gc.get_objects())

    gc.collect()
    before = held()
    gc.disable()
    yield lambda: held() - before
    gc.enable()


@step
async def added(number: int) -> int:
    return number + 1


@step
def added_in_thread(number: int) -> int:
    return number + 1


@workflow
async def busy(number: int) -> int:
    """Steps at once, a timer that is not needed, a sleep, a child."""
    async with asyncio.timeout(3600):
        number = sum(await asyncio.gather(added(number), added(number)))
    await sleep(0.001)
    return await leaf(number)


@workflow
async def leaf(number: int) -> int:
    return await added(number)


@workflow
def plain(number: int) -> int:
    return added_in_thread(number)


@workflow
async def told(number: int) -> int:
    return number + await go.wait()


@workflow
async def broken(number: int) -> int:
    raise ValueError(f"{await added(number)} is wrong")


async def test_nothing_of_an_ended_run_waits_for_the_garbage_collector(
    world: World, uncollected: Callable[[], int]
) -> None:
    """Promise: what an ended run had in memory is free at once. The collector would have to look at all of it, several
    times, while a busy worker goes through thousands of runs."""
    async with world.serving(busy, leaf, plain, told, broken) as app:
        for make in (busy, plain.call):
            assert await (await app.start(make(1))).result("30s") in {5, 2}
        run = await app.start(told(1))
        await run.signal(go, 2)
        assert await run.result("30s") == 3
        assert await (await app.start(broken(1))).wait("30s") == "failed"
        run = await app.start(told(1))
        await world.until_waiting(run, "signal go")
        await run.cancel()
        assert await run.wait("30s") == "cancelled"
        await world.until(lambda: uncollected() == 0, "everything is free")
