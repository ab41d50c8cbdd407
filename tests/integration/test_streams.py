"""Streams end to end: from steps and workflows, live and later, over retries, crashes, continuations and removals."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from holdfast import (
    Part,
    Permanent,
    Retry,
    Run,
    RunFailed,
    RunNotFound,
    Stream,
    continue_as,
    current,
    saga,
    step,
    sync,
    workflow,
)
from holdfast.testing import crash_sweep
from tests.support.world import World, crash

tokens = Stream[str]("tokens")
numbers = sync.Stream[int]("numbers")
TRIES = Retry(3, first="1ms")


@step(retry=TRIES)
async def answer(prompt: str, fails: int = 0) -> str:
    for number in range(4):
        tokens.send(f"{prompt}{number}")
        await asyncio.sleep(0)
    await tokens.flush()
    if current().attempt <= fails:
        raise ValueError("again")
    tokens.send("end")
    return prompt


@step
def count(to: int) -> int:
    for number in range(to):
        numbers.send(number)
    numbers.flush()
    return to


@workflow
async def chat(prompt: str, fails: int = 0) -> str:
    tokens.send("begin")
    said = await answer(prompt, fails)
    tokens.send("done")
    return said


@workflow
async def counts(to: int) -> int:
    return await asyncio.to_thread(count, to)


@workflow
def plain(to: int) -> int:
    numbers.send(-1)
    return count(to)


async def all_of(run: Run[Any], stream: Stream[Any] = tokens, **how: Any) -> list[Part[Any]]:
    async with asyncio.timeout(20):
        return [part async for part in run.read(stream, **how)]


def values(parts: list[Part[Any]]) -> list[Any]:
    return [part.value for part in parts]


async def test_parts_of_steps_and_workflows_come_in_order(world: World) -> None:
    """Promise: one order of offsets; each part says which step and attempt sent it."""
    async with world.serving(chat) as app:
        run = await app.start(chat("a"))
        parts = await all_of(run)
    assert values(parts) == ["begin", "a0", "a1", "a2", "a3", "end", "done"]
    assert [part.offset for part in parts] == list(range(7))
    assert [(part.step, part.attempt) for part in parts] == [("", 1), *[("answer", 1)] * 5, ("", 1)]


async def test_a_reader_continues_after_any_part(world: World) -> None:
    """Promise: after an offset or a part, exactly what follows, also once the run has ended."""
    async with world.serving(chat) as app:
        run = await app.start(chat("a"))
        whole = await all_of(run)
        for place, part in enumerate(whole):
            assert [x.offset for x in await all_of(run, after=part)] == [x.offset for x in whole[place + 1 :]]
            assert values(await all_of(run, after=part.offset)) == values(whole[place + 1 :])


async def test_parts_of_a_failed_attempt_are_superseded(world: World) -> None:
    """Promise: they stay and say so; with only="completed" they are left out."""
    async with world.serving(chat) as app:
        run = await app.start(chat("a", fails=2))
        await run.result(timeout="60s")
        parts = await all_of(run)
        kept = await all_of(run, only="completed")
    assert [part.state for part in parts if part.step] == ["superseded"] * 8 + ["completed"] * 5
    assert [part.attempt for part in parts if part.step] == [1] * 4 + [2] * 4 + [3] * 5
    assert values(kept) == ["begin", "a0", "a1", "a2", "a3", "end", "done"]


async def test_completed_parts_wait_for_their_attempt(world: World) -> None:
    """Promise: a live reader of completed parts gets none before the attempt has completed, and then all."""
    gate = asyncio.Event()

    @step
    async def holds() -> None:
        tokens.send("early")
        await tokens.flush()
        await gate.wait()

    @workflow
    async def held() -> None:
        await holds()

    async with world.serving(held) as app:
        run = await app.start(held())
        live = run.read(tokens)
        first = await asyncio.wait_for(anext(live), 20)
        assert (first.value, first.state) == ("early", "open")
        reading = asyncio.create_task(all_of(run, only="completed"))
        await asyncio.sleep(0)
        assert not reading.done()
        gate.set()
        assert values(await reading) == ["early"]


async def test_a_failed_step_leaves_nothing_completed(world: World) -> None:
    """Promise: the run fails, and its parts are superseded."""

    @step(retry=Retry.none)
    async def breaks() -> None:
        tokens.send("half")
        raise Permanent("no")

    @workflow
    async def broken() -> None:
        await breaks()

    async with world.serving(broken) as app:
        run = await app.start(broken())
        with pytest.raises(RunFailed):
            await run.result(timeout="60s")
        assert [(part.value, part.state) for part in await all_of(run)] == [("half", "superseded")]
        assert await all_of(run, only="completed") == []


async def test_threads_send_too(world: World) -> None:
    """Promise: a `def` step sends from its thread, and flush() of holdfast.sync waits there."""
    async with world.serving(counts, plain) as app:
        run = await app.start(counts(500))
        assert values(await all_of(run, numbers)) == list(range(500))  # type: ignore[arg-type]
        other = await app.start(plain.call(3))
        assert values(await all_of(other, numbers)) == [-1, 0, 1, 2]  # type: ignore[arg-type]


async def test_many_steps_share_a_stream(world: World) -> None:
    """Promise: parts of each keep their order; offsets are dense; nothing is lost."""

    @step
    async def talks(name: str) -> None:
        for number in range(50):
            tokens.send(f"{name} {number}")
            if number % 10 == 0:
                await asyncio.sleep(0.001)

    @workflow
    async def crowd() -> None:
        tokens.send("begin")
        await asyncio.gather(*(talks(name) for name in "abcd"))
        tokens.send("end")

    async with world.serving(crowd) as app:
        parts = await all_of(await app.start(crowd()))
    assert [part.offset for part in parts] == list(range(202))
    for name in "abcd":
        assert [x for x in values(parts) if x.startswith(name + " ")] == [f"{name} {number}" for number in range(50)]
    assert (parts[0].value, parts[-1].value) == ("begin", "end")


async def test_continuing_continues_the_offsets(world: World) -> None:
    """Promise: continue_as is the same run and the same stream. A retry is another run, whose streams are empty."""

    @workflow
    async def again(left: int) -> None:
        tokens.send(f"left {left}")
        await answer("x")
        if left:
            continue_as(again(left - 1))
        raise Permanent("enough")

    async with world.serving(again) as app:
        run = await app.start(again(1))
        with pytest.raises(RunFailed):
            await run.result(timeout="60s")
        parts = await all_of(run)
        assert [part.offset for part in parts] == list(range(12))
        assert [x for x in values(parts) if x.startswith("left")] == ["left 1", "left 0"]
        assert [part.state for part in parts] == ["completed"] * 12
        retried = await run.retry()
        with pytest.raises(RunFailed):
            await retried.result(timeout="60s")
        assert values(await all_of(retried)) == ["left 1"] or values(await all_of(retried))[0].startswith("left")
        assert (await all_of(retried))[0].offset == 0


async def test_a_stream_goes_with_its_run(world: World) -> None:
    """Promise: deleted with it. A reader of a run that is not there is told so."""
    async with world.serving(chat) as app:
        run = await app.start(chat("a"), id="r")
        await run.result(timeout="60s")
        await run.delete()
        with pytest.raises(RunNotFound, match="no run 'r'"):
            await all_of(run)


async def test_a_stream_that_nobody_sent_to_ends_with_the_run(world: World) -> None:
    async with world.serving(counts) as app:
        assert await all_of(await app.start(counts(1))) == []


async def test_a_takeover_supersedes_what_was_cut_off(still: World) -> None:
    """Promise: an attempt whose worker is gone is superseded as soon as another has the run."""
    begun, never = asyncio.Event(), asyncio.Event()
    tries: list[int] = []

    @step
    async def cut() -> str:
        tries.append(1)
        tokens.send(f"try {len(tries)}")
        await tokens.flush()
        if len(tries) == 1:
            begun.set()
            await never.wait()
        return "done"

    @workflow
    async def cuts() -> str:
        return await cut()

    app = still.app(cuts)
    async with still.worker(app, id="w1", ttl="15s") as first:
        run = await app.start(cuts())
        await asyncio.wait_for(begun.wait(), 20)
        await crash(first)
    still.clock.advance(timedelta(minutes=1))
    async with still.worker(app, id="w2") as second:
        await still.beat(second)
        await still.until_status(run, "completed")
        parts = await all_of(run)
    assert [(part.value, part.attempt, part.state) for part in parts] == [
        ("try 1", 1, "superseded"),
        ("try 2", 2, "completed"),
    ]


# -- crashes -----------------------------------------------------------------------------------------------------------


@workflow
async def crashes(prompt: str) -> str:
    tokens.send("begin")
    async with saga():
        said = await answer(prompt)
        tokens.send("between")
        await answer("again")
    return said


def test_a_crash_anywhere_leaves_completed_parts_whole() -> None:
    """Promise: killed at every boundary, appends included, the run ends the same, and what completed attempts sent is
    there once and in order: the sweep compares it."""
    report = crash_sweep(crashes("x"))
    report.assert_ok()
    assert sum("parts of" in point for point in report.points) >= 8


def test_the_sweep_sees_parts_that_differ() -> None:
    """Promise: a step that sends something else when it runs again is found."""
    told: list[int] = []

    @step
    async def fickle() -> None:
        told.append(1)
        tokens.send(f"try {len(told)}")

    @workflow
    async def fickles() -> None:
        await fickle()

    report = crash_sweep(fickles(), ignore=[told])
    assert "tokens" in str(report)
    with pytest.raises(AssertionError):
        report.assert_ok()


# -- liveness ----------------------------------------------------------------------------------------------------------


async def test_readers_share_one_look(world: World) -> None:
    """Promise: however many read a stream on one event loop, a page is asked for once."""
    go = asyncio.Event()

    @step
    async def paced() -> None:
        for number in range(5):
            tokens.send(str(number))
            await tokens.flush()
        await go.wait()

    @workflow
    async def paces() -> None:
        await paced()

    async with world.serving(paces) as app:
        run = await app.start(paces())
        asked = 0
        inner = world.store.read_parts

        async def counted(*args: Any, **named: Any) -> Any:
            nonlocal asked
            asked += 1
            return await inner(*args, **named)

        world.store.read_parts = counted  # type: ignore[method-assign]
        readers = [asyncio.create_task(all_of(run)) for _ in range(50)]
        async for part in run.read(tokens):
            if part.offset == 4:
                go.set()
        for found in await asyncio.gather(*readers):
            assert values(found) == ["0", "1", "2", "3", "4"]
    assert asked < 50


def test_a_blocking_reader(tmp_path: Any) -> None:
    """Promise: `holdfast.sync` reads in a plain loop."""
    app = sync.App(f"sqlite:///{tmp_path}/s.db", workflows=[plain])
    with app.worker():
        run = app.start(plain.call(4))
        assert [part.value for part in run.read(numbers)] == [-1, 0, 1, 2, 3]
        assert [part.value for part in run.read(numbers, after=2, only="completed")] == [2, 3]
    app.close()
