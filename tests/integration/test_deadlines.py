"""Deadlines: before the start, during a step, capping waits and retries, with a clean-up of their own."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from holdfast import Retry, RunFailed, Signal, Status, saga, sleep, start, step, workflow
from holdfast.errors import InvalidInput
from tests.support.hang import hang
from tests.support.world import START, World, events, forget_programs

go = Signal[int]("go")
DEADLINE = "DeadlineExceeded"


@workflow
async def waits() -> int:
    return await go.wait()


@pytest.mark.spec("openworkflow.O22", "openworkflow.O81", "openworkflow.O92")
async def test_a_run_past_its_deadline_never_begins(still: World) -> None:
    """Promise: its code is not called; it fails with the deadline's error."""
    ran: list[int] = []

    @workflow
    async def work() -> None:
        ran.append(1)

    app = still.app(work)
    run = await app.start(work(), deadline="1h")
    still.clock.advance(timedelta(hours=1))
    async with still.worker(app):
        with pytest.raises(RunFailed) as failed:
            await run.result("60s")
    assert failed.value.type == DEADLINE
    assert ran == []


@pytest.mark.spec("openworkflow.O22", "traps.B8")
async def test_a_deadline_wakes_the_waiting_parent(still: World) -> None:
    """Promise: a child that fails by its deadline tells its parent, whether it had begun or not."""

    @workflow(deadline="1h", name="kid")
    async def kid() -> None:
        await go.wait()

    @workflow
    async def over() -> str:
        try:
            await kid()
        except RunFailed as failed:
            return failed.type
        return ""

    parents, children = still.app(over), still.app(kid)
    async with still.worker(children), still.worker(parents):
        begun = await parents.start(over(), id="begun")
        await still.until_parked("begun/kid")
    async with still.worker(parents):
        unbegun = await parents.start(over(), id="unbegun")
        await still.until(lambda: still.store.get("unbegun/kid"))
    still.clock.advance(timedelta(hours=1))
    async with still.worker(children), still.worker(parents):
        assert await begun.result("60s") == DEADLINE
        assert await unbegun.result("60s") == DEADLINE


@pytest.mark.spec("openworkflow.O81", "traps.B3", "openworkflow.O55")
async def test_a_deadline_caps_a_wait(still: World) -> None:
    """Promise: a run parked for long is available at its deadline, and fails then, warm or cold."""
    app = still.app(waits)
    async with still.worker(app) as worker:
        for cold in (False, True):
            run = await app.start(waits(), deadline="1h")
            row = await still.until_parked(run)
            assert row.available_at == row.deadline == still.clock.now() + timedelta(hours=1)
            if cold:
                forget_programs(worker)
            await still.advance("1h")
            with pytest.raises(RunFailed) as failed:
                await run.result("60s")
            assert failed.value.type == DEADLINE


@pytest.mark.spec("openworkflow.O22", "openworkflow.O81")
async def test_a_deadline_during_a_step(still: World) -> None:
    """Promise: the holder notices while the body runs: the body is asked to stop, the run fails, no step follows."""
    entered = asyncio.Event()
    seen: list[str] = []

    @step
    async def slow() -> None:
        await hang(entered, lambda: seen.append("stopped"))

    @step
    async def after() -> None:
        seen.append("after")

    @workflow
    async def work() -> None:
        await slow()
        await after()

    async with still.serving(work) as app:
        run = await app.start(work(), deadline="1h")
        await still.until_set(entered)
        await still.until_waiting(run, "step slow")
        await still.advance("1h")
        with pytest.raises(RunFailed) as failed:
            await run.result("60s")
    assert failed.value.type == DEADLINE
    assert seen == ["stopped"]


@pytest.mark.spec("openworkflow.O82", "openworkflow.O81", "traps.B8")
async def test_a_retry_beyond_the_deadline_fails_with_the_original_error(still: World) -> None:
    """Promise: a retry whose time is at or after the deadline is none: the step fails with its own error, now."""

    @step(retry=Retry(None, first="2h", ceiling="2h"))
    async def fails() -> None:
        raise ValueError("the original")

    @workflow
    async def work() -> None:
        await fails()

    async with still.serving(work) as app:
        run = await app.start(work(), deadline="1h")
        with pytest.raises(RunFailed, match="the original"):
            await run.result("60s")


@pytest.mark.spec("openworkflow.O55", "traps.B3")
async def test_a_run_that_sleeps_past_its_deadline_is_available_at_the_deadline(still: World) -> None:
    """Promise: of a timer and the deadline the earlier one wakes the run."""

    @workflow
    async def work() -> None:
        await sleep("3h")

    async with still.serving(work) as app:
        run = await app.start(work(), deadline="1h")
        assert (await still.until_parked(run)).available_at == START + timedelta(hours=1)


@pytest.mark.spec("openworkflow.O81", "openworkflow.O83")
async def test_no_step_begins_after_the_deadline(still: World) -> None:
    """Promise: the deadline is checked before each step, also when nothing waited for it."""
    seen: list[str] = []

    @step
    async def leap() -> None:
        still.clock.advance(timedelta(hours=2))

    @step
    async def after() -> None:
        seen.append("after")

    @workflow
    async def work() -> None:
        await leap()
        await after()

    async with still.serving(work) as app:
        run = await app.start(work(), deadline="1h")
        with pytest.raises(RunFailed) as failed:
            await run.result("60s")
    assert failed.value.type == DEADLINE
    assert seen == []


async def test_clean_up_after_a_deadline_has_a_budget_of_its_own(still: World) -> None:
    """Promise: `finally` and undo run after the deadline, within `cancel_grace`; then the run fails by its deadline."""
    seen: list[str] = []

    @step
    async def reserve() -> str:
        return "r"

    @reserve.undo
    async def release(what: str) -> None:
        seen.append(f"undo {what}")

    @step
    async def clean() -> None:
        seen.append("clean")

    @workflow
    async def work() -> None:
        try:
            async with saga():
                await reserve()
                await go.wait()
        finally:
            await clean()
            await sleep("10s")

    async with still.serving(work, cancel_grace="1m") as app:
        run = await app.start(work(), deadline="1h")
        await still.until_waiting(run, "signal")
        await still.until_parked(run)
        await still.advance("1h")
        await still.until_waiting(run, "sleeping")
        await still.advance("10s")
        with pytest.raises(RunFailed) as failed:
            await run.result("60s")
    assert failed.value.type == DEADLINE
    assert seen == ["undo r", "clean"]
    assert not (await events(run))[-1].data.get("undone")


async def test_clean_up_after_a_deadline_is_cut_by_the_grace(still: World) -> None:
    """Promise: clean-up longer than the grace is cut; the run fails by its deadline."""

    @workflow
    async def work() -> None:
        try:
            await go.wait()
        finally:
            await sleep("1d")

    async with still.serving(work, cancel_grace="1m") as app:
        run = await app.start(work(), deadline="1h")
        await still.until_parked(run)
        await still.advance("1h")
        await still.until_waiting(run, "sleeping")
        row = await still.until_parked(run)
        assert row.available_at == START + timedelta(hours=1, minutes=1)
        await still.advance("1m")
        with pytest.raises(RunFailed) as failed:
            await run.result("60s")
    assert failed.value.type == DEADLINE


async def test_a_workflow_declares_its_deadline(still: World) -> None:
    """Promise: `@workflow(deadline=)` counts from the start; `start(deadline=)` replaces it, also as an instant."""

    @workflow(deadline="2h")
    async def work() -> None:
        await go.wait()

    app = still.app(work)
    assert (await still.row(await app.start(work()))).deadline == START + timedelta(hours=2)
    assert (await still.row(await app.start(work(), deadline="5m"))).deadline == START + timedelta(minutes=5)
    instant = START + timedelta(days=3)
    assert (await still.row(await app.start(work(), deadline=instant))).deadline == instant
    with pytest.raises(InvalidInput, match="aware"):
        await app.start(work(), deadline=datetime(2027, 1, 1))  # noqa: DTZ001 that is the point


@pytest.mark.spec("openworkflow.O50")
async def test_a_child_does_not_inherit_the_deadline(still: World) -> None:
    """Promise: a child has its own workflow's deadline or none, never its parent's."""

    @workflow
    async def over() -> None:
        start(waits(), id="kid")
        await go.wait()

    async with still.serving(over, waits) as app:
        run = await app.start(over(), deadline="1h")
        await still.until_parked("kid")
        assert (await still.row("kid")).deadline is None
        await still.advance("1h")
        assert await run.wait("60s") is Status.FAILED
        assert (await still.row("kid")).status is Status.RUNNING


async def test_a_deadline_in_time_changes_nothing(still: World) -> None:
    """Promise: a run that ends before its deadline completes as any other."""
    async with still.serving(waits) as app:
        run = await app.start(waits(), deadline="1h")
        await still.until_parked(run)
        await still.advance("59m")
        await run.signal(go, 1)
        assert await run.result("60s") == 1
