"""Bodies that a run has given up: it continues without them, and stops them once that is durable."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from holdfast import (
    OutcomeUnknown,
    Retry,
    Run,
    Signal,
    Status,
    StepFailed,
    saga,
    sleep,
    step,
    workflow,
)
from holdfast.core import events as e
from holdfast.core.recovery import decode_recovery
from holdfast.core.turn import decode_row
from tests.support.stuck_thread import Thread
from tests.support.world import World, crash, events

QUICK = "60s"
"""Less than any wait for a body would take."""


async def last(run: Run[Any]) -> dict[str, Any]:
    """What the last event of an ended run says."""
    return (await events(run))[-1].data


@pytest.mark.parametrize("how", ["timeout around it", "its own timeout", "loser of a race"])
async def test_a_run_goes_on_without_a_thread_it_gave_up(world: World, thread: Thread, how: str) -> None:
    """Promise: once a thread is given up, later steps, a durable wait and the end are as quick as ever."""
    go = Signal[str]("go")

    @step(retry=Retry.none, timeout="100ms" if how == "its own timeout" else None)
    def slow() -> str:
        return thread.run()

    @step
    async def quick() -> str:
        return "quick"

    @workflow
    async def work() -> str:
        slowly = asyncio.ensure_future(asyncio.to_thread(slow))
        if how == "timeout around it":
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await slowly
        elif how == "its own timeout":
            with pytest.raises(StepFailed):
                await slowly
        else:
            await asyncio.wait([slowly, asyncio.ensure_future(quick())], return_when=asyncio.FIRST_COMPLETED)
            slowly.cancel()
        return await quick() + await go.wait()

    app = world.app(work)
    async with world.worker(app) as worker:
        run = await app.start(work())
        await world.until_parked(run)
        await world.until(lambda: worker.engine.bodies.left == ((run.id, "slow"),))
        await run.signal(go, " go")
        assert await run.result(QUICK) == "quick go"
        await thread.end()
    assert thread.was_cancelled == [True]


async def test_a_worker_that_stops_waits_for_no_thread_that_was_given_up(world: World, thread: Thread) -> None:
    """Promise: what nobody wants does not use up the grace."""
    hold, held = asyncio.Event(), asyncio.Event()

    @step
    def slow() -> str:
        return thread.run()

    @step
    async def holding() -> str:
        held.set()
        await hold.wait()
        return "held"

    @workflow
    async def work() -> str:
        slowly = asyncio.ensure_future(asyncio.to_thread(slow))
        await asyncio.wait([slowly], timeout=0.1)
        slowly.cancel()
        return await holding() + await holding()

    app = world.app(work)
    async with world.worker(app, grace="1h") as worker:
        run = await app.start(work())
        await world.until_set(held)
        stopping = asyncio.create_task(worker.stop())
        await world.until(lambda: worker.is_stopping)
        hold.set()
        async with asyncio.timeout(60):
            await stopping
    async with world.worker(app):
        assert await run.result(QUICK) == "heldheld"


async def test_a_thread_given_up_in_a_saga_is_undone_when_it_has_taken_effect(world: World, thread: Thread) -> None:
    """Promise: the outcome of a step that can be undone is waited for, though the saga has failed."""
    undone: list[str] = []

    @step
    def book() -> str:
        thread.begun.set()
        thread.may_end.wait(100)
        return "seat 5"

    @book.undo
    async def release(result: str) -> None:
        undone.append(result)

    @step(retry=Retry.none)
    async def fails() -> None:
        assert await asyncio.to_thread(thread.begun.wait, 10)
        raise ValueError("no")

    @workflow
    async def work() -> None:
        async with saga(), asyncio.TaskGroup() as group:
            group.create_task(asyncio.to_thread(book))
            group.create_task(fails())

    async with world.serving(work) as app:
        run = await app.start(work())
        no = (await world.row(run)).no

        async def is_given_up() -> bool:
            rows = (await world.store.read({no: 1}))[no]
            return any(isinstance(x, e.StepAbandoned) for row in rows for x in decode_row(row).events)

        await world.until(is_given_up)
        thread.may_end.set()
        assert await run.wait(QUICK) is Status.FAILED
    assert undone == ["seat 5"]


async def test_a_left_thread_keeps_its_place_in_the_pool(world: World, thread: Thread) -> None:
    """Promise: threads that were left count against the worker's threads until they return, so there are never more of
    them, and the worker's row names them, for `holdfast doctor`; what needs no thread goes on."""
    ran: list[str] = []

    @step
    def slow() -> str:
        return thread.run()

    @step
    def other() -> None:
        ran.append("other")

    @step
    async def quick() -> None:
        assert await asyncio.to_thread(thread.begun.wait, 10)

    @workflow
    async def leaves() -> None:
        slowly = asyncio.ensure_future(asyncio.to_thread(slow))
        await quick()
        assert not slowly.done()

    @workflow
    async def needs() -> None:
        await asyncio.to_thread(other)

    app = world.app(leaves, needs)
    async with world.worker(app, concurrency=1, ttl="1s") as worker:
        run = await app.start(leaves())
        await run.result(QUICK)

        async def is_told() -> bool:
            rows = await world.store.workers()
            return any(decode_recovery(row.recovery).left == ((run.id, "slow"),) for row in rows)

        await world.until(is_told)
        waiting = await app.start(needs())
        await world.until_waiting(waiting, "other")
        await world.until(lambda: len(worker.engine.bodies.left) == 1)
        assert ran == []
        await thread.end()
        await waiting.result(QUICK)
    assert ran == ["other"]


async def test_a_body_that_waits_for_a_thread_when_it_is_given_up_never_begins(world: World, thread: Thread) -> None:
    """Promise: neither after the run's end, nor after a timeout around it. It is not said to be left running."""
    ran: list[str] = []

    @step
    def slow() -> str:
        return thread.run()

    @step
    def late(text: str) -> None:
        ran.append(text)

    @workflow
    async def holds() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                await asyncio.to_thread(slow)

    @workflow
    async def gives_up() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                await asyncio.to_thread(late, "given up")
        queued = asyncio.ensure_future(asyncio.to_thread(late, "at the end"))
        await sleep("50ms")
        assert not queued.done()

    app = world.app(holds, gives_up)
    async with world.worker(app, concurrency=1) as worker:
        await (await app.start(holds())).result(QUICK)
        run = await app.start(gives_up())
        await run.result(QUICK)
        assert len(worker.engine.bodies.left) == 1
        await thread.end()
        await world.until(lambda: not worker.engine.bodies.left)
    assert "left" not in await last(run)
    assert ran == []


async def test_after_a_crash_a_once_step_that_never_began_is_no_doubt(still: World) -> None:
    """Promise: a worker that was told to go leaves a once=True step unbegun; another one begins it."""
    entered, leave = asyncio.Event(), asyncio.Event()
    bodies: list[str] = []

    @step
    async def first() -> None:
        entered.set()
        await leave.wait()

    @step(once=True)
    async def charge() -> str:
        bodies.append("charge")
        return "paid"

    @workflow
    async def work() -> str:
        await first()
        try:
            return await charge()
        except OutcomeUnknown:
            return "doubt"

    app = still.app(work)
    async with still.worker(app) as worker:
        run = await app.start(work())
        await still.until_set(entered)
        stopping = asyncio.create_task(worker.stop())
        await still.until(lambda: worker.is_stopping)
        leave.set()
        await stopping
    async with still.worker(app) as worker:
        assert await run.result(QUICK) == "paid"
        await crash(worker)
    assert bodies == ["charge"]
