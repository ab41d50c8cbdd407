"""Retries of a step: policies, budgets, and what a failed attempt may say about the next."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from holdfast import (
    Permanent,
    Retry,
    RetryAfter,
    RunFailed,
    Signal,
    StepFailed,
    current,
    sleep,
    step,
    workflow,
)
from holdfast.errors import InvalidRetry
from tests.support.world import START, World, crash, events, forget_programs, types

FAST = Retry(10, first="1ms", ceiling="2ms")


go = Signal[bool]("go")


@pytest.mark.spec("openworkflow.O2", "openworkflow.O70", "openworkflow.O75", "vectorbea.V5", "traps.B6")
async def test_only_the_failed_step_is_tried_again(world: World) -> None:
    """Promise: a retry re-executes that step only; what is completed is not run again."""
    seen: list[str] = []

    @step
    async def fine() -> int:
        seen.append("fine")
        return 1

    @step(retry=FAST)
    async def shaky() -> int:
        seen.append("shaky")
        if seen.count("shaky") < 4:
            raise ConnectionError("not yet")
        return 2

    @workflow
    async def work() -> int:
        return await fine() + await shaky()

    async with world.serving(work) as app:
        run = await app.start(work())
        assert await run.result("60s") == 3
    assert seen == ["fine", "shaky", "shaky", "shaky", "shaky"]
    failed = [event.data for event in await events(run) if event.type == "attempt_failed"]
    assert [x["attempt"] for x in failed] == [1, 2, 3]
    assert all("not yet" in x["failure"]["message"] and x["of"] == 10 for x in failed)


@pytest.mark.spec("openworkflow.O5", "openworkflow.O70", "traps.B6", "openworkflow.O2")
async def test_each_key_has_its_own_budget(world: World) -> None:
    """Promise: the budget counts failed attempts of one key; the same step under another key has its own."""
    tries: list[str] = []

    @step(retry=Retry(3, first="1ms"))
    async def fails(name: str) -> None:
        tries.append(name)
        raise ValueError(name)

    @workflow
    async def work() -> list[str]:
        counts: list[str] = []
        for name in ("a", "b"):
            try:
                await fails(name)
            except StepFailed as failed:
                counts.append(f"{failed.step} {failed.type} {failed.message} {failed.attempts}")
        return counts

    async with world.serving(work) as app:
        run = await app.start(work())
        assert await run.result("60s") == ["fails ValueError a 3", "fails ValueError b 3"]
    assert tries == ["a"] * 3 + ["b"] * 3
    found = await types(run)
    assert [found.count(kind) for kind in ("step", "attempt_failed", "attempt", "step_failed")] == [2, 4, 4, 2]


@pytest.mark.spec("openworkflow.O78", "openworkflow.O79", "traps.B5")
async def test_the_author_sees_only_the_last_failure_and_it_is_memoised(world: World) -> None:
    """Promise: `except` fires once, after the budget is spent; a replay takes the same branch without running it."""
    tries: list[int] = []
    caught: list[str] = []

    @step(retry=Retry(3, first="1ms"))
    async def fails() -> None:
        tries.append(current().attempt)
        raise ValueError(f"try {current().attempt}")

    @workflow
    async def work() -> str:
        try:
            await fails()
        except StepFailed as failed:
            caught.append(failed.message)
            await go.wait()
            return failed.message
        return "no failure"

    app = world.app(work)
    async with world.worker(app) as worker:
        run = await app.start(work())
        await world.until_parked(run)
        forget_programs(worker)
        await run.signal(go, True)
        assert await run.result("60s") == "try 3"
    assert tries == [1, 2, 3]
    assert caught == ["try 3", "try 3"]


@pytest.mark.spec("openworkflow.O44", "openworkflow.O71")
async def test_retries_can_be_unlimited_or_none(world: World) -> None:
    """Promise: `Retry(None)` never gives up; `Retry.none` is one try; an int counts the first try; 0 is refused."""
    tries: dict[str, int] = {}

    def count(name: str, until: int) -> int:
        tries[name] = tries.get(name, 0) + 1
        if tries[name] < until:
            raise ValueError(name)
        return tries[name]

    @step(retry=Retry(None, first="0s"))
    async def unlimited() -> int:
        return count("unlimited", 30)

    with pytest.raises(InvalidRetry, match="attempts=0 could mean two things"):
        step(retry=0)(unlimited)

    @step(retry=Retry.none)
    async def once() -> int:
        return count("once", 2)

    @step(retry=2)
    async def two() -> int:
        return count("two", 3)

    @workflow
    async def work() -> list[int]:
        found = [await unlimited()]
        for one in (once, two):
            try:
                await one()
            except StepFailed as failed:
                found.append(failed.attempts)
        return found

    async with world.serving(work) as app:
        assert await (await app.start(work())).result("60s") == [30, 1, 2]
    assert tries == {"unlimited": 30, "once": 1, "two": 2}


@pytest.mark.spec("openworkflow.O71", "openworkflow.O72", "vectorbea.V31")
async def test_the_default_policy_waits_from_one_second_doubling_to_a_hundred(still: World) -> None:
    """Promise: a bare step has 10 attempts; the waits double from 1 s to 100 s, each shortened by up to half."""

    @step
    async def fails() -> None:
        raise ValueError("no")

    @workflow
    async def work() -> None:
        await fails()

    async with still.serving(work) as app:
        run = await app.start(work())
        waits: list[float] = []
        for attempt in range(1, 10):
            assert "step fails failed, retrying in" in await still.until_waiting(run, f"attempt {attempt + 1} of 10")
            [doing] = (await run.view()).doing.now
            assert doing.until is not None
            waits.append((doing.until - still.clock.now()).total_seconds())
            await still.advance(doing.until - still.clock.now())
        with pytest.raises(RunFailed, match="after 10 attempt"):
            await run.result("60s")
    full = [1, 2, 4, 8, 16, 32, 64, 100, 100]
    assert all(whole / 2 <= wait <= whole for wait, whole in zip(waits, full, strict=True))


async def test_the_app_sets_the_policy_of_bare_steps(world: World) -> None:
    """Promise: `App(step_retry=…)` is for steps without a policy, `options(retry=)` for one call."""
    tries: list[str] = []

    @step
    async def bare(name: str) -> None:
        tries.append(name)
        raise ValueError(name)

    @workflow
    async def work() -> None:
        for call in (bare("app"), bare.options(retry=Retry(2, first="1ms"))("call")):
            try:
                await call
            except StepFailed:
                continue

    async with world.serving(work, step_retry=Retry(3, first="1ms")) as app:
        await (await app.start(work())).result("60s")
    assert tries == ["app"] * 3 + ["call"] * 2


async def test_retry_after_is_the_least_wait(still: World) -> None:
    """Promise: `RetryAfter` counts as a failed attempt and puts the next one off by at least that long."""

    @step(retry=Retry(2, first="1s"))
    async def limited() -> int:
        if current().attempt == 1:
            raise RetryAfter("1h")
        return current().attempt

    @workflow
    async def work() -> int:
        return await limited()

    async with still.serving(work) as app:
        run = await app.start(work())
        text = await still.until_waiting(run, "retrying in 1 h")
        assert "attempt 2 of 2" in text
        row = await still.until_parked(run)
        assert row.available_at == still.clock.now() + timedelta(hours=1)
        await still.advance("1h")
        assert await run.result("60s") == 2


async def test_permanent_ends_the_step_at_once(world: World) -> None:
    """Promise: `Permanent` is not retried; the workflow sees `StepFailed` with its text."""
    tries: list[int] = []

    @step(retry=FAST)
    async def bad() -> None:
        tries.append(1)
        raise Permanent("bad request")

    @workflow
    async def work() -> str:
        try:
            await bad()
        except StepFailed as failed:
            return f"{failed.type}: {failed.message} after {failed.attempts}"
        return ""

    async with world.serving(work) as app:
        assert await (await app.start(work())).result("60s") == "Permanent: bad request after 1"
    assert tries == [1]


@pytest.mark.spec("openworkflow.O55", "traps.B3")
async def test_a_retry_beside_a_sleep_wakes_the_run(still: World) -> None:
    """Promise: a run that sleeps, and whose step is to be tried again sooner, is available at the earlier of both."""

    tries: list[int] = []

    @step(retry=Retry(2, first="10m", ceiling="10m"))
    async def shaky() -> int:
        tries.append(current().attempt)
        if current().attempt == 1:
            raise ConnectionError
        return 1

    @workflow
    async def work() -> int:
        return (await asyncio.gather(shaky(), sleep("3h")))[0]

    async with still.serving(work) as app:
        run = await app.start(work())
        row = await still.until_parked(run)
        assert row.available_at is not None
        assert row.available_at <= START + timedelta(minutes=10)
        await still.advance("10m")
        await still.until(lambda: tries == [1, 2])
        assert (await still.until_parked(run)).available_at == START + timedelta(hours=3)
        await still.advance("3h")
        assert await run.result("60s") == 1


@pytest.mark.spec("openworkflow.O14", "traps.A9", "traps.B6", "openworkflow.O77")
async def test_a_crash_costs_no_budget(still: World) -> None:
    """Promise: an attempt cut off by a crash counts as an attempt, not as a failure of the step: two crashes
    leave both tries of the budget."""
    seen: list[int] = []

    @step(retry=Retry(2, first=0))
    async def work_once() -> int:
        seen.append(current().attempt)
        if current().attempt < 3:
            await asyncio.Event().wait()
        if current().attempt == 3:
            raise ConnectionError
        return current().attempt

    @workflow
    async def work() -> int:
        return await work_once()

    app = still.app(work)
    run = await app.start(work())
    for attempt in (1, 2):
        async with still.worker(app, ttl="15s") as worker:
            await still.beat(worker)
            await still.until(lambda attempt=attempt: len(seen) == attempt, "the next attempt")  # type: ignore[misc]
            await crash(worker)
        still.clock.advance(16)
    async with still.worker(app) as worker:
        await still.beat(worker)
        assert await run.result("60s") == 4
    assert seen == [1, 2, 3, 4]
