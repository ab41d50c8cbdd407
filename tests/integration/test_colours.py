"""Async and sync workflows with async and sync steps, in threads and processes."""

from __future__ import annotations

import asyncio
import os
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import RunCancelled, RunFailed, Signal, Status, StepFailed, current, step, workflow
from holdfast.sync import Signal as SyncSignal
from holdfast.sync import gather, saga
from tests.support.processes import Refused, ends_by, never_ends, pid_and_text
from tests.support.world import World, forget_programs

go = Signal[int]("go")
sync_go = SyncSignal[int]("go")


@step
async def async_step(text: str) -> str:
    return f"async {text}"


@step
def thread_step(text: str) -> str:
    return f"{threading.current_thread().name.split('_')[0]} {text} {current().key}"


@workflow
async def async_flow(text: str) -> list[str]:
    _, upper = await asyncio.to_thread(pid_and_text, text)
    return [await async_step(text), await asyncio.to_thread(thread_step, text), upper]


@workflow
def sync_flow(text: str) -> list[str]:
    first, second = gather(async_step(text), thread_step.call(text))
    third = thread_step(text)
    _, upper = pid_and_text(text)
    return [first, second, third, upper]


async def test_an_async_workflow_with_every_kind_of_step(world: World) -> None:
    """Promise: async steps are awaited, sync ones go through `asyncio.to_thread`: thread or process."""
    async with world.serving(async_flow) as app:
        assert await (await app.start(async_flow("x"))).result("60s") == ["async x", "holdfast-step x thread_step", "X"]


async def test_a_sync_workflow_with_every_kind_of_step(world: World) -> None:
    """Promise: sync steps are plain calls, several at once through `gather`, async ones too."""
    async with world.serving(sync_flow) as app:
        assert await (await app.start(sync_flow.call("x"))).result("60s") == [
            "async x",
            "holdfast-step x thread_step",
            "holdfast-step x thread_step:1",
            "X",
        ]


async def test_a_process_step_is_another_process(world: World) -> None:
    """Promise: `executor="process"` runs in a process of its own."""

    @workflow
    async def work() -> int:
        return (await asyncio.to_thread(pid_and_text, "x"))[0]

    async with world.serving(work) as app:
        assert await (await app.start(work())).result("60s") != os.getpid()


@pytest.mark.parametrize("how", ["kill", "exit", "hard exit", "later", "error"])
async def test_a_process_that_dies_is_a_failed_attempt(world: World, how: str) -> None:
    """Promise: whatever ends the process, the attempt has failed and the next one follows."""

    @workflow
    async def work() -> int:
        return await asyncio.to_thread(ends_by, how)

    async with world.serving(work) as app:
        assert await (await app.start(work())).result("60s") == 3


async def test_a_process_step_declares_and_gives_up(world: World) -> None:
    """Promise: declared errors and `Permanent` cross the process as data."""

    @workflow
    async def work() -> list[str]:
        found: list[str] = []
        try:
            await asyncio.to_thread(ends_by, "declared")
        except Refused as refused:
            found.append(str(refused))
        try:
            await asyncio.to_thread(ends_by, "permanent")
        except StepFailed as failed:
            found.append(failed.message)
        return found

    async with world.serving(work) as app:
        assert await (await app.start(work())).result("60s") == ["no", "never"]


async def test_a_process_is_ended_by_its_time_limit(world: World, tmp_path: Path) -> None:
    """Promise: a timeout really ends the process."""
    path = tmp_path / "pid"

    @workflow
    async def work(limit: int) -> str:
        try:
            await asyncio.to_thread(never_ends.options(timeout=timedelta(seconds=limit)), str(path))
        except StepFailed as failed:
            return failed.type
        return ""

    async with world.serving(work) as app:
        for limit in (1, 4, 16):
            assert await (await app.start(work(limit))).result("60s") == "TimeoutError"
            if path.exists():  # else the process was not up yet: its body had no time at all
                break
    with pytest.raises(ProcessLookupError):
        os.kill(int(path.read_text()), 0)


async def test_a_thread_outlives_its_time_limit_but_the_step_does_not(world: World) -> None:
    """Promise: a thread cannot be ended: its attempt fails in time, and what it returns later is ignored."""
    leave = threading.Event()

    @step(retry=1, timeout="30ms")
    def slow() -> int:
        leave.wait(100)
        return 1

    @workflow
    async def work() -> str:
        try:
            await asyncio.to_thread(slow)
        except StepFailed as failed:
            return failed.type
        return "no limit"

    async with world.serving(work) as app:
        try:
            assert await (await app.start(work())).result("60s") == "TimeoutError"
        finally:
            leave.set()


async def test_a_sync_workflow_parks_and_replays(world: World) -> None:
    """Promise: a sync body gives its thread back when it waits, and goes on by replay."""
    passes: list[int] = []

    @workflow
    def work() -> list[str | int]:
        passes.append(1)
        return [thread_step("a"), sync_go.wait(), thread_step("b")]

    app = world.app(work)
    async with world.worker(app):
        run = await app.start(work.call())
        await world.until_parked(run)
        await world.until(lambda: not any("holdfast-work" in x.name for x in threading.enumerate()))
        await run.signal(go, 4)
        assert await run.result("60s") == ["holdfast-step a thread_step", 4, "holdfast-step b thread_step:1"]
    assert len(passes) == 2


async def test_a_sync_workflow_is_cancelled_and_cleans_up(world: World) -> None:
    """Promise: `CancelledError` at its wait; `finally` and undo run durably."""
    done: list[str] = []

    @step
    def book(what: str) -> str:
        done.append(f"book {what}")
        return what

    @book.undo
    def release(result: str, what: str) -> None:
        done.append(f"undo {what}")

    @workflow
    def work() -> None:
        try:
            with saga():
                book("a")
                book("b")
                sync_go.wait()
        finally:
            thread_step("clean")
            done.append("clean")

    async with world.serving(work) as app:
        run = await app.start(work.call())
        await world.until_waiting(run, "signal")
        await world.until_parked(run)
        await run.cancel("stop")
        with pytest.raises(RunCancelled):
            await run.result("60s")
    assert done[-3:] == ["undo b", "undo a", "clean"]


async def test_a_sync_step_called_directly_in_an_async_workflow_is_refused(world: World) -> None:
    """Promise: the error says `asyncio.to_thread`."""

    @workflow
    async def work() -> str:
        return thread_step("x")

    async with world.serving(work) as app:
        with pytest.raises(RunFailed, match="to_thread"):
            await (await app.start(work())).result("60s")


async def test_children_across_colours(world: World) -> None:
    """Promise: an async parent awaits a sync child, and the other way round."""

    @workflow
    async def async_child(text: str) -> str:
        return await async_step(text)

    @workflow
    def sync_child(text: str) -> str:
        return thread_step(text)

    @workflow
    async def async_parent() -> str:
        return await sync_child.call("x")

    @workflow
    def sync_parent() -> list[str]:
        return [sync_child("y"), *gather(async_child("z"))]

    async with world.serving(async_child, sync_child, async_parent, sync_parent) as app:
        assert await (await app.start(async_parent())).result("60s") == "holdfast-step x thread_step"
        assert await (await app.start(sync_parent.call())).result("60s") == ["holdfast-step y thread_step", "async z"]


async def test_a_sync_workflow_warm_or_cold_is_the_same(world: World) -> None:
    """Promise: nothing of a sync body is kept in memory; a cold resume agrees."""

    @workflow
    def work() -> int:
        return sync_go.wait() + sync_go.wait()

    app = world.app(work)
    async with world.worker(app) as worker:
        run = await app.start(work.call())
        await world.until_parked(run)
        forget_programs(worker)
        await run.signal(go, 1)
        await run.signal(go, 2)
        assert await run.result("60s") == 3
        assert await run.status() is Status.COMPLETED
