"""Programs that refuse to end when they leave memory: left behind without effects, and reported."""

from __future__ import annotations

import contextlib

import pytest

from holdfast import Signal, step, workflow
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
