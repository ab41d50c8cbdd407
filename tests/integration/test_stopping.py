"""Cancel, kill, and the clean-up that follows a cancel."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import App, Retry, RunCancelled, RunFinished, Signal, Status, saga, sleep, step, workflow
from holdfast.worker.worker import Worker
from tests.support.hang import hang
from tests.support.world import START, World, crash, events, forget_programs

go = Signal[int]("go")

PATIENCE = 60.0


@workflow
async def waits() -> int:
    return await go.wait()


@pytest.mark.spec("openworkflow.O11", "openworkflow.O84")
async def test_a_run_that_never_began_is_cancelled_at_once(world: World) -> None:
    """Promise: no worker is needed; the run ends `cancelled` and no code of it ever runs."""
    app = world.app(waits)
    run = await app.start(waits())
    await run.cancel("changed my mind")
    row = await world.row(run)
    assert (row.status, row.available_at, row.instance) == (Status.CANCELLED, None, "")
    assert row.ended_at is not None
    with pytest.raises(RunCancelled, match="changed my mind") as cancelled:
        await run.result("60s")
    assert cancelled.value.reason == "changed my mind"


@pytest.mark.spec("openworkflow.O84", "openworkflow.O85", "traps.B8")
async def test_cancel_is_idempotent(world: World) -> None:
    """Promise: again, before or after it took effect, nothing happens; CancelledError is raised once, and a clean-up is
    not interrupted."""
    caught: list[str] = []

    @workflow
    async def work() -> None:
        try:
            await go.wait()
        except asyncio.CancelledError as error:
            caught.append(str(error))
            try:
                await sleep("1ms")
            except asyncio.CancelledError as again:
                caught.append(str(again))
            raise

    async with world.serving(work) as app:
        run = await app.start(work())
        await world.until_parked(run)
        await asyncio.gather(run.cancel("one"), run.cancel("two"))
        assert await run.wait("60s") is Status.CANCELLED
        await run.cancel("three")
        assert len(caught) == 1
        assert [x.type for x in await events(run)].count("cancelled") == 1


@pytest.mark.spec("openworkflow.O6", "openworkflow.O85")
async def test_a_run_that_ended_cannot_be_cancelled(world: World) -> None:
    """Promise: completed and failed are absorbing: cancel, kill, pause are refused as `RunFinished`."""

    @workflow
    async def fails() -> None:
        raise ValueError("no")

    @workflow
    async def ends() -> None: ...

    async with world.serving(fails, ends) as app:
        for call, status in ((fails(), "failed"), (ends(), "completed")):
            run = await app.start(call)
            await run.wait("60s")
            for verb in (run.cancel, run.kill, run.pause, run.resume):
                with pytest.raises(RunFinished, match=status) as refused:
                    await verb()
                assert refused.value.status == status
            assert await run.status() == status


@pytest.mark.spec("openworkflow.O84", "openworkflow.O85", "openworkflow.O11")
async def test_cancel_stops_a_running_step_and_everything_after_it(world: World) -> None:
    """Promise: the body in flight is asked to stop, no further step begins, the run ends cancelled."""
    entered = asyncio.Event()
    seen: list[str] = []

    @step
    async def first() -> None:
        await hang(entered, lambda: seen.append("stopped"))

    @step
    async def second() -> None:
        seen.append("second")

    @workflow
    async def work() -> None:
        await first()
        await second()

    async with world.serving(work) as app:
        run = await app.start(work())
        await world.until_set(entered)
        await run.cancel("enough")
        assert await run.wait("60s") is Status.CANCELLED
    assert seen == ["stopped"]


async def test_a_cancel_from_elsewhere_reaches_a_running_body(tmp_path: Path) -> None:
    """Promise (L12): a worker that is told nothing of a cancel finds it when it compares what it holds."""
    entered, stopped = asyncio.Event(), asyncio.Event()

    @step
    async def long() -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    @workflow
    async def work() -> None:
        await long()

    url = f"sqlite:///{tmp_path / 'shared.db'}"
    served, elsewhere = App(url, workflows=[work]), App(url, workflows=[work])
    async with asyncio.timeout(PATIENCE), served, elsewhere, served.worker():
        run = await served.start(work(), id="held")
        await entered.wait()
        await (await elsewhere.get("held")).cancel("from another place")
        await stopped.wait()
        with pytest.raises(RunCancelled, match="from another place"):
            await run.result()


@pytest.mark.parametrize("cold", [False, True])
async def test_clean_up_after_a_cancel_is_durable(world: World, cold: bool) -> None:
    """Promise: `finally` may run steps, wait and sleep; then the run ends cancelled, with the reason."""
    seen: list[str] = []

    @step(retry=Retry(3, first="1ms"))
    async def clean(name: str) -> None:
        seen.append(name)
        if seen.count(name) == 1:
            raise ConnectionError

    @workflow
    async def work() -> None:
        try:
            await go.wait()
        finally:
            await clean("a")
            await sleep("5ms")
            await clean("b")

    app = world.app(work)
    async with world.worker(app) as worker:
        run = await app.start(work())
        await world.until_parked(run)
        if cold:
            forget_programs(worker)
        await run.cancel("bye")
        with pytest.raises(RunCancelled, match="bye"):
            await run.result("60s")
    assert seen == ["a", "a", "b", "b"]


async def test_clean_up_survives_a_crash(still: World) -> None:
    """Promise: a crash during clean-up resumes the clean-up; the run still ends cancelled."""
    seen: list[str] = []
    hang = True

    @step
    async def clean(name: str) -> None:
        seen.append(name)
        if hang:
            await asyncio.Event().wait()

    @workflow
    async def work() -> None:
        try:
            await go.wait()
        finally:
            await clean("a")

    app = still.app(work)
    async with still.worker(app, ttl="15s") as worker:
        run = await app.start(work())
        await still.until_parked(run)
        await run.cancel("bye")
        await still.until(lambda: seen)
        await crash(worker)
    still.clock.advance(16)
    hang = False
    async with still.worker(app) as worker:
        await still.beat(worker)
        assert await run.wait("60s") is Status.CANCELLED
    assert seen == ["a", "a"]


async def test_clean_up_has_a_grace(still: World) -> None:
    """Promise: clean-up that takes longer than `cancel_grace` is cut: cancelled, with what was left named."""
    entered = asyncio.Event()

    @step
    async def slow() -> None:
        entered.set()
        await asyncio.Event().wait()

    @workflow
    async def work() -> None:
        try:
            await go.wait()
        finally:
            await slow()

    async with still.serving(work, cancel_grace="1m") as app:
        run = await app.start(work())
        await still.until_parked(run)
        await run.cancel("bye")
        await still.until_set(entered)
        assert "cleaning up after a cancel (bye), 1 min left" in (await run.view()).waiting
        await still.advance("59s")
        assert await run.status() is Status.RUNNING
        await still.advance("2s")
        assert await run.wait("60s") is Status.CANCELLED
        end = (await events(run))[-1]
        assert end.data["imposed"]


async def test_a_parked_clean_up_is_cut_too(still: World) -> None:
    """Promise: the grace also ends a clean-up that sleeps, though nobody holds the run."""

    @workflow
    async def work() -> None:
        try:
            await go.wait()
        finally:
            await sleep("1d")

    async with still.serving(work, cancel_grace="1m") as app:
        run = await app.start(work())
        await still.until_parked(run)
        await run.cancel("bye")
        await still.until_waiting(run, "sleeping")
        row = await still.until_parked(run)
        assert row.available_at == START + timedelta(minutes=1)
        await still.advance("1m")
        assert await run.wait("60s") is Status.CANCELLED


@pytest.mark.spec("openworkflow.O84", "traps.B8")
async def test_cancel_wins_over_a_completion_at_the_same_time(world: World) -> None:
    """Promise: a cancel accepted before the run's end is durable decides: the run ends cancelled, never both."""
    entered, leave = asyncio.Event(), asyncio.Event()

    @step
    async def last() -> int:
        entered.set()
        await leave.wait()
        return 1

    @workflow
    async def work() -> int:
        return await last()

    async with world.serving(work) as app:
        for _ in range(10):
            entered.clear()
            leave.clear()
            run = await app.start(work())
            await world.until_set(entered)
            cancel = asyncio.create_task(run.cancel("race"))
            leave.set()
            try:
                await cancel
            except RunFinished:
                assert await run.wait("60s") is Status.COMPLETED
            else:
                assert await run.wait("60s") is Status.CANCELLED


@pytest.mark.spec("openworkflow.O84", "traps.B8")
async def test_a_cancel_wins_over_a_signal_that_came_before_it(world: World) -> None:
    """Promise: of what a run finds in its inbox the cancel comes first, so that a signal which would complete the run
    does not."""
    app = world.app(waits)
    async with world.worker(app):
        run = await app.start(waits())
        await world.until_parked(run)
    await run.signal(go, 1)
    await run.cancel()
    async with world.worker(app):
        assert await run.wait("60s") is Status.CANCELLED


@pytest.mark.spec("openworkflow.O84")
async def test_an_author_cannot_turn_a_cancel_into_success(world: World) -> None:
    """Promise: code that swallows the CancelledError and returns still ends cancelled: no partial success."""

    @workflow
    async def stubborn() -> str:
        try:
            await go.wait()
        except asyncio.CancelledError:
            return "done anyway"
        return ""

    async with world.serving(stubborn) as app:
        run = await app.start(stubborn())
        await world.until_parked(run)
        await run.cancel("stop")
        with pytest.raises(RunCancelled):
            await run.result("60s")


@pytest.mark.parametrize("held", [False, True])
async def test_kill_is_at_once_and_runs_no_code(world: World, held: bool) -> None:
    """Promise: terminal at once whoever holds the run; no `finally`, no undo; what was left is listed."""
    entered = asyncio.Event()
    seen: list[str] = []

    @step
    async def reserve() -> str:
        return "r"

    @reserve.undo
    async def release(_: str) -> None:
        seen.append("undo")

    @step
    async def hangs() -> None:
        entered.set()
        await asyncio.Event().wait()

    @step
    async def clean() -> None:
        seen.append("finally")

    @workflow
    async def work() -> None:
        try:
            async with saga():
                await reserve()
                await (hangs() if held else go.wait())
        finally:
            await clean()

    @workflow
    async def quick() -> None: ...

    async with world.serving(work, quick) as app:
        run = await app.start(work())
        if held:
            await world.until_set(entered)
        else:
            await world.until_waiting(run, "go")
            await world.until_parked(run)
        await run.kill("now")
        assert await run.status() is Status.CANCELLED
        end = (await events(run))[-1]
        assert end.type == "cancelled"
        assert end.data["imposed"]
        assert end.data["undone"] == ["reserve"]
        assert end.data.get("left", []) == (["hangs"] if held else [])
        await run.kill("again")
        other = await app.start(quick())
        await other.result("60s")
    assert seen == []


async def test_cancelling_an_awaited_step_from_the_code(world: World) -> None:
    """Promise: `task.cancel()` asks the body to stop; a late outcome is journaled and ignored."""
    entered = asyncio.Event()
    stopped: list[int] = []

    @step
    async def slow() -> int:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(1)
            return 7
        return 0

    @step
    async def quick() -> int:
        await entered.wait()
        return 1

    @workflow
    async def work() -> int:
        task = asyncio.create_task(slow())
        found = await quick()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        return found

    async with world.serving(work) as app:
        run = await app.start(work())
        assert await run.result("60s") == 1
    assert stopped == [1]


async def test_a_worker_that_is_stopped_while_it_starts_leaves_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: told to stop before it serves, it neither claims nor beats, and nobody counts it as alive."""
    register = Worker._register

    async def stopped_meanwhile(worker: Worker) -> None:
        await register(worker)
        await worker.stop(grace=0)
        await register(worker)  # the answer of a store that is far away comes last

    monkeypatch.setattr(Worker, "_register", stopped_meanwhile)
    app = world.app(waits)
    async with app.worker():
        assert [row for row in await world.store.workers() if row.is_live] == []
