"""Runs that begin again: passes after a saga, retries of large or continued runs, a delayed run paused and resumed."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from holdfast import OutcomeUnknown, Retry, RunFailed, continue_as, saga, sleep, step, workflow
from tests.support.world import World


async def test_an_undone_step_is_done_once_more_however_many_passes_follow(world: World) -> None:
    """Promise: what a saga took back is done again by the next pass, and then it is done: a third pass reads it."""
    charged: list[str] = []
    failures = iter(["in the saga", "after it"])

    @step
    async def charge() -> str:
        charged.append("charge")
        return "paid"

    @charge.undo
    async def refund(payment: str) -> None:
        charged.append("refund")

    @workflow(retry=Retry(5, first="1ms", ceiling="2ms"))
    async def order() -> str:
        async with saga():
            paid = await charge()
            first = next(failures, None) if len(charged) == 1 else None
            if first:
                raise ValueError(first)
        if len(charged) == 3 and (second := next(failures, None)):
            raise ValueError(second)
        return paid

    async with world.serving(order) as app:
        assert await (await app.start(order())).result("60s") == "paid"
    assert charged == ["charge", "refund", "charge"]


async def test_a_retried_run_takes_over_a_large_result(world: World) -> None:
    """Promise: a completed step whose result is kept as a blob is read by the retry, not run again."""
    ran: list[str] = []
    is_broken = True

    @step
    async def big() -> str:
        ran.append("big")
        return "x" * 200_000

    @workflow
    async def work() -> int:
        text = await big()
        if is_broken:
            raise ValueError("not yet")
        return len(text)

    async with world.serving(work) as app:
        run = await app.start(work())
        try:
            await run.result("60s")
        except RunFailed:
            is_broken = False
        assert await (await run.retry()).result("60s") == 200_000
    assert ran == ["big"]


async def test_a_retry_of_a_continued_run_begins_with_its_last_arguments(world: World) -> None:
    """Promise: `retry()` goes on from the last `continue_as`, not from the first start."""
    seen: list[int] = []
    is_broken = True

    @step
    async def note(n: int) -> int:
        seen.append(n)
        return n

    @workflow
    async def count(n: int) -> int:
        await note(n)
        if n < 3:
            continue_as(count(n + 1))
        if is_broken:
            raise ValueError("not yet")
        return n

    async with world.serving(count) as app:
        run = await app.start(count(1))
        try:
            await run.result("60s")
        except RunFailed:
            is_broken = False
        assert await (await run.retry()).result("60s") == 3
    assert seen == [1, 2, 3]


async def test_a_step_that_may_run_once_is_not_begun_again_by_a_later_pass(world: World) -> None:
    """Promise: a once=True step that a failing pass left without an outcome is in doubt for the next pass."""
    begun: list[str] = []
    passes: list[str] = []

    @step(once=True)
    async def wire() -> str:
        begun.append("wire")
        await go_gate.wait()
        return "sent"

    @workflow(retry=Retry(2, first="1ms", ceiling="2ms"))
    async def work() -> str:
        passes.append("pass")
        if len(passes) == 1:
            task = asyncio.create_task(wire())
            await sleep("30ms")
            assert not task.done()
            raise ValueError("the first pass fails")
        try:
            return await wire()
        except OutcomeUnknown as unknown:
            return f"in doubt: {unknown.step}"

    go_gate = asyncio.Event()
    async with world.serving(work) as app:
        assert await (await app.start(work())).result("60s") == "in doubt: wire"
    assert begun == ["wire"]


async def test_a_delayed_run_that_was_paused_and_resumed_still_waits(still: World) -> None:
    """Promise: resuming a run that has not begun does not start it before its time."""

    @workflow
    async def work() -> int:
        return 1

    app = still.app(work)
    run = await app.start(work(), delay="1h")
    await run.pause()
    await run.resume()
    row = await still.store.get(run.id)
    assert row is not None
    assert row.available_at == still.clock.now() + timedelta(hours=1)
