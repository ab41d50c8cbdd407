"""The step limit, and `continue_as`: long runs."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import (
    Retry,
    RunFailed,
    Signal,
    Status,
    continue_as,
    current,
    each,
    log,
    now,
    rng,
    sleep,
    step,
    uuid4,
    workflow,
)
from holdfast.errors import InvalidInput
from tests.support.world import World, events, forget_programs

go = Signal[int]("go")
LIMIT = "StepLimitExceeded"


@step(retry=Retry(None, first="0s"))
async def tick(fail_until: int = 0) -> int:
    if current().attempt < fail_until:
        raise ValueError
    return 1


@workflow
async def ticks(count: int) -> int:
    return sum([await tick() for _ in range(count)])


@pytest.mark.spec("openworkflow.O59", "traps.B6")
async def test_exactly_the_limit_passes(world: World) -> None:
    """Promise: 1000 attempts complete, live and replayed; one more fails the run at once, without running it."""
    async with world.serving(ticks) as app:
        assert await (await app.start(ticks(1000))).result("60s") == 1000
        run = await app.start(ticks(1001))
        with pytest.raises(RunFailed, match="1000") as failed:
            await run.result("60s")
        assert LIMIT in failed.value.type
        assert [x.type for x in await events(run)].count("done") == 1000


@pytest.mark.spec("openworkflow.O59", "traps.B6")
async def test_attempts_of_all_kinds_count(world: World) -> None:
    """Promise: steps, retries, sleeps, waits and children count; a policy of the workflow does not retry it."""

    @workflow
    async def child() -> None: ...

    @workflow(retry=Retry(3, first="1ms"))
    async def work(extra: int) -> str:
        await tick(3)
        await sleep(0)
        await asyncio.sleep(0.001)
        await go.wait(timeout=0, default=0)
        await child()
        for _ in range(extra):
            await tick()
        return "ok"

    async with world.serving(work, child, step_limit=10) as app:
        assert await (await app.start(work(2))).result("60s") == "ok"
        run = await app.start(work(4))
        with pytest.raises(RunFailed) as failed:
            await run.result("60s")
        assert LIMIT in failed.value.type
        assert "retry" not in [x.type for x in await events(run)]


@pytest.mark.spec("openworkflow.O59", "traps.B6")
@pytest.mark.parametrize("kind", ["step", "retry", "sleep", "asyncio sleep", "wait", "child"])
async def test_one_more_of_any_kind_is_too_much(world: World, kind: str) -> None:
    """Promise: whatever would be the attempt beyond the limit fails the run, and the attempt at the limit does not."""

    @workflow
    async def child() -> None: ...

    @workflow
    async def work(before: int) -> str:
        for _ in range(before):
            await tick()
        match kind:
            case "step":
                await tick()
            case "retry":
                await tick(2)
            case "sleep":
                await sleep(0)
            case "asyncio sleep":
                await asyncio.sleep(0.001)
            case "wait":
                await go.wait(timeout=0, default=0)
            case _:
                await child()
        return "ok"

    spare = 1 if kind == "retry" else 0
    async with world.serving(work, child, step_limit=4) as app:
        assert await (await app.start(work(3 - spare))).result("60s") == "ok"
        run = await app.start(work(4 - spare))
        with pytest.raises(RunFailed) as failed:
            await run.result("60s")
        assert LIMIT in failed.value.type


@pytest.mark.spec("openworkflow.O59")
async def test_the_author_cannot_catch_the_limit(world: World) -> None:
    """Promise: the run fails whatever the code would do."""

    @workflow
    async def work() -> str:
        while True:
            try:
                await tick()
            except Exception:  # noqa: BLE001, S112 that is the point
                continue

    async with world.serving(work, step_limit=5) as app:
        run = await app.start(work())
        assert await run.wait("60s") is Status.FAILED


async def test_a_workflow_has_a_limit_of_its_own(world: World) -> None:
    """Promise: `@workflow(step_limit=…)` counts instead of the app's, upwards and downwards, and None is no limit."""
    few = workflow(step_limit=2, name="few")(_ticks)
    many = workflow(step_limit=None, name="many")(_ticks)
    async with world.serving(few, many, ticks, step_limit=3) as app:
        assert await (await app.start(few(2))).result("60s") == 2
        assert await (await app.start(many(9))).result("60s") == 9
        for call in (few(3), ticks(4)):
            with pytest.raises(RunFailed) as failed:
                await (await app.start(call)).result("60s")
            assert LIMIT in failed.value.type


async def test_an_each_counts_as_one(world: World) -> None:
    """Promise: however many steps or children one `each` asks for; its retries count, and so does a loop around it."""

    @workflow
    async def child(number: int) -> int:
        return number

    @workflow
    async def work(rounds: int, fail_until: int = 0) -> int:
        for _ in range(rounds):
            await each(tick, [fail_until] * 9)
            await each(child, range(9))
        return rounds

    async with world.serving(work, child, step_limit=4) as app:
        run = await app.start(work(2))
        assert await run.result("60s") == 2
        for call in (work(3), work(1, 2)):
            with pytest.raises(RunFailed) as failed:
                await (await app.start(call)).result("60s")
            assert LIMIT in failed.value.type


async def _ticks(count: int) -> int:
    return sum([await tick() for _ in range(count)])


async def test_the_limit_can_be_lifted(world: World) -> None:
    """Promise: `step_limit=None` has none; less than one is refused."""
    async with world.serving(ticks, step_limit=None) as app:
        assert await (await app.start(ticks(1200))).result("30s") == 1200
    with pytest.raises(InvalidInput, match="step_limit"):
        world.app(ticks, step_limit=0)


async def test_a_run_continues_as_itself(world: World) -> None:
    """Promise: a hundred generations under one id; ordinals go on; the step limit counts each pass anew."""

    @workflow
    async def generations(number: int, total: int = 0) -> int:
        total += await tick()
        if number > 1:
            continue_as(generations(number - 1, total))
        return total

    async with world.serving(generations, step_limit=3) as app:
        run = await app.start(generations(100), id="g")
        assert await run.result("30s") == 100
    found = await events(run)
    assert [x.type for x in found].count("continued") == 99
    ordinals = sorted({x.ordinal for x in found})
    assert ordinals == list(range(1, len(ordinals) + 1))


async def test_signals_are_carried_over(world: World) -> None:
    """Promise: signals not taken by one generation are there for the next, in order, each once."""

    @workflow
    async def collects(found: list[int]) -> list[int]:
        found = [*found, await go.wait()]
        if len(found) < 5:
            continue_as(collects(found))
        return found

    app = world.app(collects)
    run = await app.start(collects([]))
    for number in range(3):
        await run.signal(go, number)
    async with world.worker(app):
        for number in (3, 4):
            await run.signal(go, number)
        assert await run.result("60s") == [0, 1, 2, 3, 4]


async def test_it_can_continue_as_another_workflow(world: World) -> None:
    """Promise: the run goes on as the other definition, same id."""

    @workflow
    async def second(number: int) -> str:
        return f"second {number} {current().workflow}"

    @workflow
    async def first(number: int) -> str:
        continue_as(second(number + 1))

    async with world.serving(first, second) as app:
        run = await app.start(first(1))
        assert await run.result("60s") == "second 2 second"
    assert (await world.row(run)).workflow == "second"


async def test_time_and_chance_replay(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: `now`, `rng`, `uuid4` and `current` give the same on every replay; `log` is silent then."""
    passes: list[list[str]] = []

    @workflow
    async def work() -> list[str]:
        about = current()
        found = [str(now()), str(rng().random()), str(uuid4()), about.run_id, str(about.created_at)]
        log.info("said once")
        await tick()
        found += [str(now()), str(uuid4())]
        passes.append(found)
        await go.wait()
        log.info("said at the end")
        return found

    caplog.set_level("INFO", logger="holdfast.run")
    app = world.app(work)
    async with world.worker(app) as worker:
        run = await app.start(work(), id="r")
        await world.until_parked(run)
        forget_programs(worker)
        await run.signal(go, 1)
        await run.result("60s")
        other = await app.start(work(), id="other")
        await other.signal(go, 1)
        assert (await other.result("60s"))[2] != passes[0][2], "another run, other chance"
    assert passes[0] == passes[1]
    said = [record for record in caplog.records if record.name == "holdfast.run" and record.__dict__.get("run") == "r"]
    assert [record.getMessage() for record in said] == ["said once", "said at the end"]


async def test_a_call_that_is_never_awaited_fails_the_run_by_its_line(world: World) -> None:
    """Promise: a step called and not awaited is an error that names the line and the cure."""

    @workflow
    async def work() -> str:
        tick()  # type: ignore[unused-coroutine]
        return "ok"

    async with world.serving(work) as app:
        with pytest.raises(RunFailed, match=r"never awaited: tick at .*test_limits\.py:\d+.*await"):
            await (await app.start(work())).result("60s")


@pytest.mark.parametrize("what", ["open", "thread"])
async def test_io_in_a_workflow_body_is_refused(world: World, what: str) -> None:
    """Promise: the loop refuses real I/O and executors with "wrap it in a step"."""

    @workflow
    async def work() -> None:
        if what == "open":
            await asyncio.open_connection("localhost", 1)
        else:
            await asyncio.to_thread(len, "x")

    async with world.serving(work) as app:
        with pytest.raises(RunFailed, match="step"):
            await (await app.start(work())).result("60s")
