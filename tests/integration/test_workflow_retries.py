"""Retries of a whole workflow: by its policy after an error outside steps, or by hand after it failed."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from holdfast import Retry, RunFailed, Signal, Status, current, sleep, step, workflow
from tests.support.world import START, World, events, types

go = Signal[int]("go")


@pytest.mark.spec("openworkflow.O73", "openworkflow.O75")
async def test_by_default_an_error_outside_steps_fails_the_run_at_once(world: World) -> None:
    """Promise: a workflow is not retried unless it says so."""
    ran: list[int] = []

    @workflow
    async def work() -> None:
        ran.append(1)
        raise ValueError("no")

    async with world.serving(work) as app:
        with pytest.raises(RunFailed):
            await (await app.start(work())).result("60s")
    assert ran == [1]


@pytest.mark.spec("openworkflow.O73", "openworkflow.O74", "openworkflow.O75", "openworkflow.O77", "traps.B6")
async def test_a_workflow_policy_retries_errors_outside_steps(world: World) -> None:
    """Promise: a new pass begins over what is settled: completed steps are kept, signals and sleeps too."""
    passes: list[int] = []
    ran: list[str] = []

    @step
    async def note(name: str) -> str:
        ran.append(name)
        return name

    @workflow(retry=Retry(4, first="1ms"))
    async def work() -> list[str | int]:
        passes.append(current().attempt)
        found: list[str | int] = [await note("a"), await go.wait()]
        await asyncio.sleep(0.001)
        if len(passes) < 3:
            raise ConnectionError("outside")
        return [*found, await note("b")]

    async with world.serving(work) as app:
        run = await app.start(work())
        await run.signal(go, 7)
        assert await run.result("60s") == ["a", 7, "b"]
    assert passes[0] == 1
    assert max(passes) == 3
    assert ran == ["a", "b"]
    assert [x.type for x in await events(run)].count("retry") == 2


@pytest.mark.parametrize("is_child", [False, True])
async def test_a_new_pass_knows_calls_by_what_they_ask_for(world: World, is_child: bool) -> None:
    """Promise: where tasks call the same step or child, a new pass finds each result again although it makes the calls
    in another order; nothing that completed runs again, and what is new gets a result of its own."""
    passes: list[int] = []
    ran: list[str] = []

    @step
    async def note(name: str) -> str:
        ran.append(name)
        return name.upper()

    @workflow
    async def below(name: str) -> str:
        return await note(name)

    async def branch(name: str, count: int) -> list[str]:
        ask = below if is_child else note
        return [await ask(f"{name}{number}") for number in range(count)]

    @workflow(retry=Retry(4, first="1ms"))
    async def work() -> list[list[str]]:
        passes.append(current().attempt)
        found = await asyncio.gather(branch("a", 2 + current().attempt), branch("b", 3))
        if current().attempt < 3:
            raise ConnectionError("outside")
        return list(found)

    async with world.serving(work, below) as app:
        run = await app.start(work())
        assert await run.result("60s") == [["A0", "A1", "A2", "A3", "A4"], ["B0", "B1", "B2"]]
    assert max(passes) == 3
    assert sorted(ran) == ["a0", "a1", "a2", "a3", "a4", "b0", "b1", "b2"]


@pytest.mark.spec("openworkflow.O73", "openworkflow.O8", "openworkflow.O75")
async def test_a_workflow_policy_waits_and_gives_up(still: World) -> None:
    """Promise: the run parks until the next pass, says so, and fails with the last error when the budget is spent."""

    @workflow(retry=Retry(2, first="1h", ceiling="1h"))
    async def work() -> None:
        raise ConnectionError(f"pass {current().attempt}")

    async with still.serving(work) as app:
        run = await app.start(work())
        text = await still.until_waiting(run, "pass 2 of 2 begins in")
        assert "pass 1" in text
        row = await still.until_parked(run)
        assert row.available_at is not None
        assert START + timedelta(minutes=30) <= row.available_at <= START + timedelta(hours=1)
        await still.advance(row.available_at - still.clock.now())
        with pytest.raises(RunFailed, match="pass 2"):
            await run.result("60s")


@pytest.mark.spec("openworkflow.O76")
async def test_spent_step_retries_fail_the_run_whatever_the_workflow_policy(world: World) -> None:
    """Promise: a step's own policy is the last word on it."""
    ran: list[int] = []

    @step(retry=Retry(2, first="1ms"))
    async def fails() -> None:
        ran.append(1)
        raise ValueError("no")

    @workflow(retry=Retry(5, first="1ms"))
    async def work() -> None:
        await fails()

    async with world.serving(work) as app:
        run = await app.start(work())
        with pytest.raises(RunFailed):
            await run.result("60s")
        assert "retry" not in await types(run)
    assert ran == [1, 1]


@pytest.mark.spec("openworkflow.O77", "traps.B6")
async def test_sleeps_and_claims_cost_a_workflow_no_budget(still: World) -> None:
    """Promise: the budget of a workflow counts passes that failed; a run that was parked and claimed again and again
    has all of it left."""
    slept: list[int] = []
    tries: list[int] = []

    @workflow(retry=Retry(2, first=0))
    async def work() -> str:
        for number in range(4):
            await sleep("1h")
            slept.append(number)
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError
        return "ok"

    async with still.serving(work) as app:
        run = await app.start(work())
        for number in range(4):
            await still.until_parked(run)
            await still.advance("1h")
            await still.until(lambda: number in slept)  # noqa: B023 awaited in this turn of the loop
        assert await run.result("60s") == "ok"
    assert len(tries) == 2


@pytest.mark.spec("openworkflow.O128")
async def test_a_failed_run_is_retried_from_where_it_failed(world: World) -> None:
    """Promise: `run.retry()` is a new run that takes over what the failed one completed."""
    ran: list[str] = []
    is_broken = True

    @step(retry=Retry.none)
    async def note(name: str) -> str:
        ran.append(name)
        if name == "b" and is_broken:
            raise ValueError("broken")
        return name

    @workflow
    async def work(prefix: str) -> str:
        return prefix + await note("a") + await note("b")

    async with world.serving(work) as app:
        run = await app.start(work("x"), id="r")
        assert await run.wait("60s") is Status.FAILED
        is_broken = False
        again = await run.retry(id="r2")
        assert again.id == "r2"
        assert await again.result("60s") == "xab"
        assert await run.status() is Status.FAILED, "the old one stays as it ended"
    assert ran == ["a", "b", "b"]
