"""What is left in memory of runs that have gone: nothing, but for programs that refuse to end, which are reported."""

from __future__ import annotations

import contextlib
import gc

import pytest

from holdfast import Signal, step, workflow
from holdfast.engine.engine import Engine
from holdfast.engine.session import Session
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
