"""Steps: memoised outcomes, retries, budgets, errors as data."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from holdfast import (
    OutcomeUnknown,
    Permanent,
    Retry,
    RetryAfter,
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
from holdfast.errors import InvalidRetry
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
        assert await run.result("10s") == ["aa", "bb", "cc"]
    assert seen == ["a", "b", "c"]
    assert persisted == [0, 1, 2]
    found = await types(run)
    assert found == ["started", "claimed", "step", "done", "step", "done", "step", "done", "completed"]


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
        assert await run.result("10s") == 3
    assert seen == ["fine", "shaky", "shaky", "shaky", "shaky"]
    failed = [event.data for event in await events(run) if event.type == "attempt_failed"]
    assert [x["attempt"] for x in failed] == [1, 2, 3]
    assert all("not yet" in x["failure"]["message"] and x["of"] == 10 for x in failed)


@pytest.mark.spec("openworkflow.O5", "openworkflow.O70", "traps.B6")
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
        assert await run.result("10s") == ["fails ValueError a 3", "fails ValueError b 3"]
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
        assert await run.result("10s") == "try 3"
    assert tries == [1, 2, 3]
    assert caught == ["try 3", "try 3"]


@pytest.mark.spec("openworkflow.O71")
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
        assert await (await app.start(work())).result("10s") == [30, 1, 2]
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
            await still.until_waiting(run, f"attempt {attempt + 1} of 10")
            [doing] = (await run.view()).doing.now
            assert doing.until is not None
            waits.append((doing.until - still.clock.now()).total_seconds())
            await still.advance(doing.until - still.clock.now())
        with pytest.raises(RunFailed, match="after 10 attempt"):
            await run.result("10s")
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
        await (await app.start(work())).result("10s")
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
        assert await run.result("10s") == 2


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
        assert await (await app.start(work())).result("10s") == "Permanent: bad request after 1"
    assert tries == [1]


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
            await run.result("10s")
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
            await run.result("10s")
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
        assert await (await app.start(work())).result("10s") == [name, name]
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
        assert await (await app.start(work())).result("10s") == [3, "TimeoutError"]
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
            await run.result("10s")
    assert tries == [1]


async def test_a_result_of_the_workflow_that_does_not_encode_fails_the_run(world: World) -> None:
    """Promise: likewise for the run's own result."""

    @workflow
    async def work() -> float:
        return float("inf")

    async with world.serving(work) as app:
        with pytest.raises(RunFailed, match="work"):
            await (await app.start(work())).result("10s")


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
        assert await run.result("10s") == "end"
    assert tries == [1]


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
        assert await (await app.start(work([1, 2]))).result("10s") == ["tuple", "(1, 'x')", "[1, 2]"]


@pytest.mark.spec("openworkflow.O42", "openworkflow.O43", "traps.B7")
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
        assert await (await app.start(work())).result("10s") == [
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
        first, second = await (await app.start(work(), id="a")).result("10s")
        third, _ = await (await app.start(work(), id="b")).result("10s")
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
        assert await run.result("10s") == 42
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
        assert await (await app.start(work())).result("10s") == 3
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
        assert await run.result("10s") == {"page": 7}
    assert seen == [(1, None), (2, {"page": 7})]


@pytest.mark.spec("openworkflow.O14", "traps.A9", "traps.B6")
async def test_a_crash_costs_no_budget(still: World) -> None:
    """Promise: an attempt cut off by a crash counts as an attempt, not as a failure of the step."""
    seen: list[int] = []

    @step(retry=Retry.none)
    async def work_once() -> int:
        seen.append(current().attempt)
        if current().attempt < 3:
            await asyncio.Event().wait()
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
        assert await run.result("10s") == 3
    assert seen == [1, 2, 3]


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
        assert await run.result("10s") == "wire in doubt after 1"
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
        assert await (await app.start(work())).result("10s") == "StepFailed"
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
        assert await run.result("10s") == text * 2 + "!"
    step_event = next(x.data for x in await events(run) if x.type == "step")
    assert step_event["blob"]
