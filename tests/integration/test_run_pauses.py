"""`app.run` of a run that is paused: it ends with an error, or says once what it waits for."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from holdfast import App, Signal, step, workflow
from holdfast.adapters.memory.store import MemoryStore
from holdfast.client.pauses import Pauses
from holdfast.errors import RunPaused, Stuck
from holdfast.ports.facts import Fact, RunPutOff
from tests.integration.test_stuck import line_of, waits_for_nothing
from tests.support.world import World

go = Signal[int]("go")


@workflow
async def waits() -> int:
    return await go.wait()


def test_a_stuck_run_ends_the_call(caplog: pytest.LogCaptureFixture) -> None:
    """Promise: `app.run` raises `Stuck` with the line that waits and the way on, and does not log the same again."""
    with pytest.raises(Stuck, match=line_of(waits_for_nothing.function).replace(".", r"\.")) as caught:
        App("memory://", workflows=[waits_for_nothing]).run(waits_for_nothing(), id="r")
    assert (caught.value.run_id, caught.value.reason) == ("r", "stuck")
    assert "holdfast show r" in caught.value.__notes__[0]
    assert "holdfast resume r" in caught.value.__notes__[0]
    assert "paused" not in caplog.text


async def test_a_run_whose_code_changed_ends_the_call(world: World) -> None:
    """Promise: a pause for another reason than an operator's wish is raised too, also one from an earlier call."""

    def version(name: str) -> tuple[App, Any]:
        @step(name=name)
        async def work() -> None:
            return None

        @workflow(name="changing")
        async def changing() -> int:
            await work()
            return await go.wait()

        return world.app(changing), changing

    app, before = version("old")
    async with app.worker():
        run = await app.start(before(), id="r")
        await world.until_waiting(run, "signal go")
    await run.signal(go, 1)
    changed, after = version("new")
    for _ in range(2):
        with pytest.raises(RunPaused, match=r"paused \(diverged\): .*'old'.*'new'") as caught:
            await changed.run_here(after(), id="r")
        assert caught.value.reason == "diverged"
        assert not isinstance(caught.value, Stuck)


async def test_a_pause_by_an_operator_is_waited_out(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: it says who paused the run and how to resume it, once, and returns the result after that."""
    app = world.app(waits)
    run = await app.start(waits(), id="r")
    await run.pause("stocktaking")
    await run.signal(go, 7)
    with caplog.at_level(logging.WARNING, "holdfast"):
        call = asyncio.create_task(app.run_here(waits(), id="r"))
        await world.until(lambda: caplog.messages or call.done())
        await run.resume()
        assert await call == 7
    [said] = caplog.messages
    assert "run r: paused by an operator (stocktaking); app.run waits" in said
    assert "holdfast resume r" in said


async def test_an_operators_pause_is_told_once() -> None:
    """Promise: however often one call looks at the paused run."""
    told: list[Fact] = []

    class Telling:
        wanted = frozenset({RunPutOff})

        def tell(self, fact: Fact) -> None:
            told.append(fact)

        def refresh(self) -> None:
            return None

    store = MemoryStore()
    app = App(store=store, workflows=[waits])
    run = await app.start(waits(), id="r")
    await run.pause()
    row = await store.get("r")
    assert row is not None
    pauses = Pauses(Telling())
    pauses(row)
    pauses(row)
    [fact] = told
    assert isinstance(fact, RunPutOff)
    assert fact.detail.startswith("paused by an operator; app.run waits")
