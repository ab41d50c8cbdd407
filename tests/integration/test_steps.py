"""Steps: memoised outcomes, retries, budgets, errors as data."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import (
    OutcomeUnknown,
    Retry,
    RunFailed,
    Signal,
    StepFailed,
    current,
    heartbeat,
    sleep,
    step,
    workflow,
)
from holdfast.core.events import StepCompleted
from holdfast.core.turn import decode_row
from tests.support.world import World, crash, events, forget_programs, types

FAST = Retry(10, first="1ms", ceiling="2ms")


go = Signal[bool]("go")


class Declined(Exception):
    """A declared answer."""


@pytest.mark.spec("openworkflow.O1b", "openworkflow.O41", "openworkflow.O90", "vectorbea.V14", "stepflow.J9")
async def test_a_run_is_its_steps_in_order(world: World) -> None:
    """Promise: steps run inline, each outcome is journaled before the next step begins, the result is the body's."""
    seen: list[str] = []
    persisted: list[int] = []

    @step
    async def one(name: str) -> str:
        seen.append(name)
        rows = await (await app.client()).store.history("in-order", after_seq=0)  # as another process reads it
        persisted.append(sum(isinstance(event, StepCompleted) for row in rows for event in decode_row(row).events))
        return name * 2

    @workflow
    async def work(name: str) -> list[str]:
        return [await one(name), await one("b"), await one("c")]

    async with world.serving(work) as app:
        run = await app.start(work("a"), id="in-order")
        assert await run.result("60s") == ["aa", "bb", "cc"]
    assert seen == ["a", "b", "c"]
    assert persisted == [0, 1, 2]
    found = await types(run)
    assert found == ["started", "claimed", "step", "done", "step", "done", "step", "done", "completed"]


@pytest.mark.spec("openworkflow.O80")
async def test_a_declared_exception_arrives_as_itself_live_and_replayed(world: World) -> None:
    """Promise: `raises=` is an answer: not retried, caught as itself, also from a cold replay, and from `result()`."""
    tries: list[int] = []
    caught: list[str] = []

    @step(retry=FAST, raises=Declined)
    async def charge() -> None:
        tries.append(1)
        raise Declined("card", 42)

    @workflow(raises=Declined)
    async def work() -> None:
        try:
            await charge()
        except Declined as declined:
            caught.append(repr(declined))
            await go.wait()
            raise

    app = world.app(work)
    async with world.worker(app) as worker:
        run = await app.start(work())
        await world.until_parked(run)
        forget_programs(worker)
        await run.signal(go, True)
        with pytest.raises(Declined) as raised:
            await run.result("60s")
    assert raised.value.args == ("card", 42)
    assert tries == [1]
    assert caught == ["Declined('card', 42)"] * 2


@pytest.mark.spec("openworkflow.O80")
async def test_an_undeclared_exception_is_data(world: World) -> None:
    """Promise: it arrives as `StepFailed` with type, message and traceback, and so does the run's failure."""

    @step(retry=Retry.none)
    async def boom() -> None:
        raise KeyError("missing")

    @workflow
    async def work() -> None:
        await boom()

    async with world.serving(work) as app:
        run = await app.start(work())
        with pytest.raises(RunFailed) as raised:
            await run.result("60s")
    assert raised.value.type == "StepFailed"
    assert "missing" in raised.value.message
    assert raised.value.run_id == run.id
    failed = next(event.data for event in await events(run) if event.type == "step_failed")
    assert failed["failure"]["type"] == "KeyError"
    assert "boom" in failed["failure"]["traceback"]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()])
async def test_no_exception_of_a_body_ends_the_worker(world: World, error: BaseException) -> None:
    """Promise: `SystemExit` and friends are failed attempts; the worker goes on, and the budget holds."""
    tries: list[int] = []

    @step(retry=Retry(2, first="1ms"))
    async def rude() -> None:
        tries.append(1)
        raise error

    @step(retry=Retry(2, first="1ms"))
    def rude_in_a_thread() -> None:
        tries.append(2)
        raise error

    @workflow
    async def work() -> list[str]:
        found: list[str] = []
        try:
            await rude()
        except StepFailed as failed:
            found.append(failed.type)
        try:
            await asyncio.to_thread(rude_in_a_thread)
        except StepFailed as failed:
            found.append(failed.type)
        return found

    async with world.serving(work) as app:
        name = type(error).__name__
        assert await (await app.start(work())).result("60s") == [name, name]
    assert tries == [1, 1, 2, 2]


async def test_an_attempt_has_a_time_limit(world: World) -> None:
    """Promise: `timeout=` ends an attempt as a failed one (`TimeoutError`); the next attempt may succeed."""
    cancelled: list[int] = []

    @step(retry=FAST, timeout="20ms")
    async def slow() -> int:
        if current().attempt < 3:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(current().attempt)
                raise
        return current().attempt

    @workflow
    async def work() -> list[str | int]:
        found: list[str | int] = [await slow()]
        try:
            await slow.options(retry=Retry.none)()
        except StepFailed as failed:
            found.append(failed.type)
        return found

    async with world.serving(work) as app:
        assert await (await app.start(work())).result("60s") == [3, "TimeoutError"]
    assert cancelled == [1, 2, 1]


async def test_a_value_that_does_not_encode_fails_the_step_by_its_path(world: World) -> None:
    """Promise: a result that cannot be stored fails the step for good, and the error names the place."""
    tries: list[int] = []

    @step(retry=FAST)
    async def bad() -> dict[str, list[float]]:
        tries.append(1)
        return {"prices": [1.0, float("nan")]}

    @workflow
    async def work() -> None:
        await bad()

    async with world.serving(work) as app:
        run = await app.start(work())
        with pytest.raises(RunFailed, match=r"prices.*1"):
            await run.result("60s")
    assert tries == [1]


async def test_a_result_of_the_workflow_that_does_not_encode_fails_the_run(world: World) -> None:
    """Promise: likewise for the run's own result."""

    @workflow
    async def work() -> float:
        return float("inf")

    async with world.serving(work) as app:
        with pytest.raises(RunFailed, match="work"):
            await (await app.start(work())).result("60s")


@pytest.mark.spec("traps.B9", "openworkflow.O44")
async def test_none_is_a_result(world: World) -> None:
    """Promise: a stored null is a completed step; a replay does not run it again."""
    tries: list[int] = []

    @step
    async def nothing() -> None:
        tries.append(1)

    @workflow
    async def work() -> str:
        assert await nothing() is None  # type: ignore[func-returns-value]
        await go.wait()
        return "end"

    app = world.app(work)
    async with world.worker(app) as worker:
        run = await app.start(work())
        await world.until_parked(run)
        forget_programs(worker)
        await run.signal(go, True)
        assert await run.result("60s") == "end"
    assert tries == [1]


@pytest.mark.spec("openworkflow.O44")
async def test_the_workflow_gets_what_was_stored(world: World) -> None:
    """Promise: live and replayed code see the same value: the one decoded from what was stored."""

    @step
    async def pair() -> tuple[int, str]:
        return (1, "x")

    @workflow
    async def work(items: list[int]) -> list[str]:
        got = await pair()
        return [type(got).__name__, repr(got), repr(items)]

    async with world.serving(work) as app:
        assert await (await app.start(work([1, 2]))).result("60s") == ["tuple", "(1, 'x')", "[1, 2]"]


@pytest.mark.spec("openworkflow.O42", "openworkflow.O43", "openworkflow.O44", "traps.B7")
async def test_keys_follow_the_calls(world: World) -> None:
    """Promise: the first use keeps the name, later ones get :1, :2, …; explicit names are skipped; all kinds share."""

    @step
    async def foo(_: int = 0) -> str:
        return current().key

    @step(name="sleep")
    async def other() -> str:
        return current().key

    @workflow
    async def work() -> list[str]:
        keys = [await foo(), await foo.options(key="foo:1")(), await foo(), await foo()]
        await sleep("1ms")
        keys.append(await other())
        first, second = foo(1), foo(2)
        keys += [await second, await first]
        return keys

    async with world.serving(work) as app:
        assert await (await app.start(work())).result("60s") == [
            "foo", "foo:1", "foo:2", "foo:3", "sleep:1", "foo:5", "foo:4",
        ]  # fmt: skip


@pytest.mark.spec("vectorbea.V7", "vectorbea.V24")
async def test_the_idempotency_key_is_the_same_for_every_attempt(world: World) -> None:
    """Promise: it follows from run and key; another step, or another run, has another."""
    seen: list[str] = []

    @step(retry=FAST)
    async def pay() -> str:
        seen.append(current().idempotency_key)
        if current().attempt < 3:
            raise ValueError
        return current().idempotency_key

    @workflow
    async def work() -> list[str]:
        return [await pay(), await pay()]

    async with world.serving(work) as app:
        first, second = await (await app.start(work(), id="a")).result("60s")
        third, _ = await (await app.start(work(), id="b")).result("60s")
    assert len({first, second, third}) == 3
    assert seen[:3] == [first] * 3


async def test_any_function_becomes_a_step_on_the_spot(world: World) -> None:
    """Promise: `step(fn, name=)(…)` is a step like any other."""

    async def double(number: int) -> int:
        return number * 2

    @workflow
    async def work() -> int:
        return await step(double, name="twice")(21)

    async with world.serving(work) as app:
        run = await app.start(work())
        assert await run.result("60s") == 42
    assert next(x.data for x in await events(run) if x.type == "step")["key"] == "twice"


async def test_progress_comes_back_after_a_retry(world: World) -> None:
    """Promise: what `heartbeat(…)` noted last is `current().progress` in the next attempt."""
    seen: list[object] = []

    @step(retry=FAST)
    async def long() -> int:
        done = current().progress or 0
        seen.append(current().progress)
        for page in range(done + 1, 4):
            heartbeat(page)
            if page == current().attempt:
                raise ConnectionError
        return done

    @workflow
    async def work() -> int:
        return await long()

    async with world.serving(work) as app:
        assert await (await app.start(work())).result("60s") == 3
    assert seen == [None, 1, 2, 3]


@pytest.mark.spec("openworkflow.O24", "traps.A9")
async def test_progress_comes_back_after_a_crash(still: World) -> None:
    """Promise: progress goes out with the worker's heartbeat, so the next worker's attempt has it."""
    seen: list[tuple[int, object]] = []

    @step
    async def long() -> object:
        seen.append((current().attempt, current().progress))
        if current().attempt == 1:
            heartbeat({"page": 7})
            await asyncio.Event().wait()
        return current().progress

    @workflow
    async def work() -> object:
        return await long()

    app = still.app(work)
    async with still.worker(app, ttl="15s") as first:
        run = await app.start(work())
        await still.until(lambda: seen)
        await still.beat(first)
        await crash(first)
    async with still.worker(app) as second:
        await still.advance("16s")
        await still.beat(second)
        assert await run.result("60s") == {"page": 7}
    assert seen == [(1, None), (2, {"page": 7})]


async def test_once_is_in_doubt_after_a_crash(still: World) -> None:
    """Promise: a `once=True` step that was cut off is not tried again; the workflow sees `OutcomeUnknown`."""
    tries: list[int] = []

    @step(once=True)
    async def wire() -> str:
        tries.append(1)
        await asyncio.Event().wait()
        return ""

    @workflow
    async def work() -> str:
        try:
            return await wire()
        except OutcomeUnknown as unknown:
            return f"{unknown.step} in doubt after {unknown.attempts}"

    app = still.app(work)
    async with still.worker(app, ttl="15s") as first:
        run = await app.start(work())
        await still.until(lambda: tries)
        await crash(first)
    async with still.worker(app) as second:
        await still.advance("16s")
        await still.beat(second)
        assert await run.result("60s") == "wire in doubt after 1"
    assert tries == [1]


async def test_once_is_not_retried_when_it_fails(world: World) -> None:
    """Promise: `once=True` is at most one try, also when the failure is known; a known failure is no doubt."""
    tries: list[int] = []

    @step(once=True)
    async def wire() -> None:
        tries.append(1)
        raise ConnectionError("cut")

    @workflow
    async def work() -> str:
        try:
            await wire()
        except StepFailed as failed:
            return type(failed).__name__
        return ""

    async with world.serving(work) as app:
        assert await (await app.start(work())).result("60s") == "StepFailed"
    assert tries == [1]


async def test_a_large_result_travels_as_a_blob(world: World) -> None:
    """Promise: above the inline limit a payload is a blob, and nobody notices: input, result, replay."""

    @step
    async def grow(text: str) -> str:
        return text * 2

    @workflow
    async def work(text: str) -> str:
        double = await grow(text)
        await go.wait()
        return double + "!"

    text = "x" * 200_000
    app = world.app(work)
    async with world.worker(app) as worker:
        run = await app.start(work(text))
        await world.until_parked(run)
        forget_programs(worker)
        await run.signal(go, True)
        assert await run.result("60s") == text * 2 + "!"
    step_event = next(x.data for x in await events(run) if x.type == "step")
    assert step_event["blob"]
