"""Workers whose time ran out: a lease that lapsed, a clock that was set, a run that somebody else opened first."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import asyncio

import msgspec
import pytest

from holdfast import Status, current, sleep, step, workflow
from holdfast.testing.conformance.world import request
from holdfast.worker.worker import Worker
from tests.support.world import World

TTL = "900s"


@workflow
async def naps() -> str:
    await sleep("1h")
    return "awake"


@workflow
async def unrelated() -> None:
    return None


async def beat(still: World, worker: Worker) -> None:
    """One heartbeat of that worker, and the worker hears what came of it."""
    heart = still.store.heart(worker.options.instance, worker.options.ttl)
    try:
        worker._beaten(await asyncio.to_thread(heart.beat))
    finally:
        heart.close()


async def test_a_worker_that_comes_back_recalls_what_was_put_off_meanwhile(still: World) -> None:
    """Promise: while the only worker that holds a definition was taken for dead, its due run was put off; when that
    worker beats again, it does not wait for the run to be due once more."""
    app = still.app(naps)
    async with still.worker(app, ttl=TTL, poll="400s") as holder:  # it does not look before the other
        run = await app.start(naps())
        await still.until_parked(run)
        await still.nudge()
        await still.until(lambda: not holder.work_hinted.is_set())
        await beat(still, holder)  # a write: its look at what is due is over
        still.clock.advance(3601)
        async with still.worker(still.app(unrelated)) as other:
            other.work_hinted.set()
            await still.until(lambda: other.recovery.counts.get("missing definition"))
        assert (await still.row(run)).available_at > still.clock.now()  # type: ignore[operator]
        await beat(still, holder)
        assert await run.result("60s") == "awake"


@pytest.mark.spec("stepflow.R7")
async def test_a_run_in_hand_that_is_claimed_again_is_in_hand_once(still: World) -> None:
    """Promise: a worker was taken for dead, and is the one who claims its own run next, before it hears of that. The
    body that was under way is stopped before it begins again: never do two of them go on in one process."""
    began: list[int] = []
    at_work: set[int] = set()
    most = 0
    leave = asyncio.Event()

    @step
    async def slow() -> int:
        nonlocal most
        attempt = current().attempt
        at_work.add(attempt)
        most = max(most, len(at_work))
        began.append(attempt)
        try:
            await leave.wait()
        finally:
            at_work.discard(attempt)
        return attempt

    @workflow
    async def work() -> int:
        return await slow()

    app = still.app(work)
    async with still.worker(app, id="w1", ttl=TTL, poll="5s") as worker:
        run = await app.start(work())
        await still.until(lambda: began == [1])
        still.clock.advance(901)
        stranger = msgspec.structs.replace(worker.row, instance="other", worker="w2", definitions=())
        await still.store.register(stranger, worker.options.ttl, takes_over="none")
        assert still.store.heart("other", worker.options.ttl).beat().orphaned == 1
        worker.work_hinted.set()
        await still.until(lambda: began == [1, 2])
        assert (at_work, most) == ({2}, 1)
        leave.set()
        assert await run.result("60s") == 2
        await still.until(lambda: worker.engine.busy == 0)


async def test_a_timer_of_a_run_in_hand_notices_that_the_clock_was_set_forward(still: World) -> None:
    """Promise: what waits in memory beside a running body fires when the store's clock says so, not when the event
    loop's timer does: the next comparison with the store sees it."""
    entered, leave = asyncio.Event(), asyncio.Event()
    heard: list[str] = []

    @step
    async def slow() -> None:
        entered.set()
        await leave.wait()

    @step
    async def note() -> None:
        heard.append("note")

    async def later() -> None:
        await sleep("50s")
        await note()

    @workflow
    async def both() -> None:
        await asyncio.gather(slow(), later())

    app = still.app(both)
    async with still.worker(app) as worker:
        run = await app.start(both())
        await still.until_set(entered)
        still.clock.advance(60)
        await worker.engine.check_held(worker.options.instance)
        await still.until(lambda: heard)
        leave.set()
        await run.result("60s")


async def test_a_run_that_was_taken_over_while_it_was_opened_is_left_alone(
    still: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise: between a claim and the reading of the journal others may have taken the run and gone on: whoever was
    slow holds nothing, writes nothing, and complains of nothing."""
    app = still.app(naps)
    run = await app.start(naps())
    async with still.worker(still.app(unrelated), ttl=TTL) as slow:
        slow.registry.add(naps.spec)
        able = msgspec.structs.replace(slow.row, definitions=slow.registry.held)
        stale = await still.store.claim(request(able, limit=1))
        assert [row.id for row in stale.runs] == [run.id]
        still.clock.advance(901)
        async with still.worker(app) as quick:
            await still.beat(quick)
            await still.until_parked(run)
        before = await still.row(run)
        await slow.engine.take_on(stale.runs)
        assert run.id not in slow.engine.sessions
        assert slow.free == slow.options.concurrency
        assert await still.row(run) == before
    assert (await still.row(run)).status is Status.RUNNING
    assert "could not be opened" not in caplog.text
    assert "fenced" not in caplog.text


async def test_a_run_that_nobody_took_is_not_said_to_be_taken_over(
    still: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise: a worker whose lease ran out drops its run, and says that no other worker has claimed it."""
    entered = asyncio.Event()

    @step
    async def holds() -> None:
        entered.set()
        await asyncio.Event().wait()

    @workflow
    async def held() -> None:
        await holds()

    app = still.app(held)
    async with still.worker(app, ttl=TTL, grace="0s") as holder, still.worker(still.app(unrelated), ttl=TTL) as other:
        run = await app.start(held())
        await still.until_set(entered)
        still.clock.advance(901)
        heart = still.store.heart(other.options.instance, other.options.ttl)
        assert (await asyncio.to_thread(lambda: heart.beat(frees=10))).orphaned == 1
        heart.close()
        await holder.engine.check_held(holder.options.instance)
        assert not holder.holds(run.id)
    assert f"run {run.id}: its lease expired, and no other worker has claimed it since; dropped" in caplog.text
    assert "taken over" not in caplog.text
