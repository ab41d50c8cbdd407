"""Workers: claims, slots, queues, leases, take-over."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest

from holdfast import App, Retry, Signal, Status, current, sleep, step, workflow
from holdfast.client.client_run import ClientRun
from holdfast.core.fold import fold
from holdfast.core.projection import project
from holdfast.core.run import Run
from holdfast.engine.session import Session
from holdfast.errors import InvalidInput
from holdfast.ports.runs import Filter
from holdfast.worker.claim_loop import claim_until_stopped
from tests.support.world import START, World, crash, events, forget_programs, types

go = Signal[int]("go")


@workflow
async def waits() -> int:
    return await go.wait()


@workflow
async def quick(number: int = 0) -> int:
    return number


@pytest.mark.spec("openworkflow.O7", "openworkflow.O9", "openworkflow.O20")
async def test_a_claim_starts_a_run(still: World) -> None:
    """Promise: pending becomes running with the worker's id and the first start; the end keeps both."""
    app = still.app(waits)
    run = await app.start(waits())
    still.clock.advance(5)
    async with still.worker(app, id="w1"):
        row = await still.until_parked(run)
        assert (row.worker, row.started_at) == ("w1", START + timedelta(seconds=5))
        still.clock.advance(5)
        await run.signal(go, 1)
        assert await run.result("60s") == 1
    row = await still.row(run)
    assert (row.worker, row.available_at, row.instance) == ("w1", None, "")
    assert (row.started_at, row.ended_at) == (START + timedelta(seconds=5), START + timedelta(seconds=10))


@pytest.mark.spec("openworkflow.O20", "traps.A7")
async def test_many_workers_never_run_a_step_twice(world: World) -> None:
    """Promise: three workers, fifty runs: every step once, every run completed."""
    ran: list[str] = []

    @step
    async def note() -> None:
        ran.append(current().run_id)

    @workflow
    async def work() -> str:
        await note()
        return current().run_id

    apps = [world.app(work) for _ in range(3)]
    runs = [await apps[0].start(work()) for _ in range(50)]
    async with world.worker(apps[0]), world.worker(apps[1]), world.worker(apps[2]):
        assert [await run.result("60s") for run in runs] == [run.id for run in runs]
    assert sorted(ran) == sorted(run.id for run in runs)


@pytest.mark.spec("openworkflow.O29", "openworkflow.O30")
async def test_concurrency_bounds_the_runs_at_work(world: World) -> None:
    """Promise: at most `concurrency` runs execute at once; a parked one holds no slot; fewer than one is refused."""
    inside = most = 0
    leave = asyncio.Event()

    @step
    async def busy() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await leave.wait()
        inside -= 1

    @workflow
    async def work() -> None:
        await busy()

    app = world.app(work, waits)
    parked = [await app.start(waits()) for _ in range(5)]
    async with world.worker(app, concurrency=2) as worker:
        for run in parked:
            await world.until_parked(run)
        runs = [await app.start(work()) for _ in range(6)]
        await world.until(lambda: inside == 2)
        assert worker.free == 0
        leave.set()
        for busy_run in runs:
            await busy_run.result("60s")
    assert most == 2
    with pytest.raises(InvalidInput, match="concurrency"):
        app.worker(concurrency=0)


@pytest.mark.spec("openworkflow.O29")
async def test_a_claim_takes_as_many_runs_as_slots_are_free(world: World) -> None:
    """Promise: with one slot of two busy, one more run is taken of the many that wait; the others stay free."""
    inside = 0
    leave = asyncio.Event()

    @step
    async def busy() -> None:
        nonlocal inside
        inside += 1
        await leave.wait()

    @workflow
    async def work() -> None:
        await busy()

    app, outside = world.app(work), App(store=world.store, workflows=[work])
    async with world.worker(app, concurrency=2):
        runs = [await app.start(work())]
        await world.until(lambda: inside == 1)
        runs += [await outside.start(work()) for _ in range(5)]
        await world.until(lambda: inside == 2)
        assert sum(bool(row.instance) for row in (await world.store.list(Filter())).runs) == 2
        leave.set()
        for run in runs:
            await run.result("60s")


@pytest.mark.spec("stem.S3")
async def test_a_worker_serves_its_queues(world: World) -> None:
    """Promise: a run is claimed by workers of its queue only."""
    app = world.app(quick)
    slow = await app.start(quick(1), queue="slow")
    async with world.worker(app):
        assert await (await app.start(quick(2))).result("60s") == 2
        assert await slow.status() is Status.PENDING
    async with world.worker(app, queues=["slow", "other"]):
        assert await slow.result("60s") == 1


async def test_priority_orders_a_queue(world: World) -> None:
    """Promise: higher first, then by available time."""
    order: list[int] = []

    @step
    async def note(number: int) -> None:
        order.append(number)

    @workflow
    async def work(number: int) -> None:
        await note(number)

    app = world.app(work)
    runs = [await app.start(work(n), priority=p) for n, p in ((1, 0), (2, 5), (3, -1), (4, 5))]
    async with world.worker(app, concurrency=1):
        for run in runs:
            await run.result("60s")
    assert order == [2, 4, 1, 3]


@pytest.mark.spec(
    "openworkflow.O24",
    "openworkflow.O40",
    "vectorbea.V1",
    "vectorbea.V2",
    "vectorbea.V4",
    "vectorbea.V5",
    "traps.A9",
    "openworkflow.O1b",
    "stepflow.C6",
)
async def test_a_dead_workers_run_is_taken_over(still: World) -> None:
    """Promise: when heartbeats stop, the lease lapses and another worker goes on: completed steps are not run again."""
    ran: list[str] = []

    @step
    async def note(name: str) -> str:
        ran.append(f"{name} {current().attempt}")
        if name == "b" and current().attempt == 1:
            await asyncio.Event().wait()
        return name

    @workflow
    async def work() -> str:
        return await note("a") + await note("b") + await note("c")

    app = still.app(work)
    async with still.worker(app, ttl="15s", id="w1") as first:
        run = await app.start(work())
        await still.until(lambda: ran == ["a 1", "b 1"])
        await crash(first)
    async with still.worker(app, id="w2") as second:
        still.clock.advance(14)
        await still.beat(second)
        assert (await still.row(run)).instance == first.options.instance, "not before its lease has lapsed"
        still.clock.advance(2)
        await still.beat(second)
        assert await run.result("60s") == "abc"
    assert ran == ["a 1", "b 1", "b 2", "c 1"]
    claimed = [x.data for x in await events(run) if x.type == "claimed"]
    assert claimed[1]["restarted"] == ["note:1"]


@pytest.mark.spec("openworkflow.O25", "openworkflow.O26", "openworkflow.O28", "traps.B1", "traps.A7")
async def test_a_stale_worker_commits_nothing(still: World, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: a worker that lost its lease while its body ran is fenced: no trace, no error, and it keeps working."""
    release_first = asyncio.Event()
    ran: list[int] = []

    @step
    async def slow() -> str:
        attempt = current().attempt
        ran.append(attempt)
        if attempt == 1:
            await release_first.wait()
        return f"attempt {attempt}"

    @workflow
    async def work() -> str:
        return await slow()

    app = still.app(work, quick)
    async with still.worker(app, ttl="15s") as first:
        run = await app.start(work())
        await still.until(lambda: ran == [1])
        other = still.app(work, quick)
        async with still.worker(other) as second:
            still.clock.advance(16)
            await still.beat(second)
            assert await run.result("60s") == "attempt 2"
        before = await types(run)
        release_first.set()
        await still.until(lambda: run.id not in first.engine.sessions)
        assert await types(run) == before
        assert await (await app.start(quick(3))).result("60s") == 3
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.spec("traps.B1", "openworkflow.O25")
async def test_a_heartbeat_that_finds_its_runs_gone_stops_the_pass(still: World) -> None:
    """Promise: a worker that learns that its run was taken over asks the body to stop at once."""
    stopped = asyncio.Event()
    ran: list[int] = []

    @step
    async def slow() -> str:
        ran.append(current().attempt)
        if current().attempt == 1:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                stopped.set()
                raise
        return "ok"

    @workflow
    async def work() -> str:
        return await slow()

    app = still.app(work)
    async with still.worker(app, ttl="15s") as first:
        run = await app.start(work())
        await still.until(lambda: ran == [1])
        async with still.worker(still.app(work)) as second:
            still.clock.advance(16)
            await still.beat(second)
            assert await run.result("60s") == "ok"
            await first.engine.check_held(first.options.instance)
            await asyncio.wait_for(stopped.wait(), 60)


async def test_a_restarted_worker_with_a_configured_id_takes_its_runs_back(still: World) -> None:
    """Promise: at start-up, at once, without waiting for the lease of its earlier instance."""
    entered: list[int] = []

    @step
    async def slow() -> int:
        entered.append(current().attempt)
        if current().attempt == 1:
            await asyncio.Event().wait()
        return current().attempt

    @workflow
    async def work() -> int:
        return await slow()

    app = still.app(work)
    async with still.worker(app, id="w1", ttl="15s") as first:
        run = await app.start(work())
        await still.until(lambda: entered)
        await crash(first)
    async with still.worker(app, id="w1"):
        assert await run.result("60s") == 2


@pytest.mark.spec("vectorbea.V23", "vectorbea.V3")
async def test_what_a_run_is_resumed_with_is_the_fold_of_its_journal(still: World) -> None:
    """Promise: resuming and computing the state are one fold: what a worker holds in memory, kept or rebuilt, equals
    the fold of the stored rows, in every field."""
    entered, leave = asyncio.Event(), asyncio.Event()

    @step(retry=Retry(3, first=0))
    async def shaky() -> int:
        if current().attempt == 1:
            raise ConnectionError
        return 1

    @step
    async def slow() -> int:
        entered.set()
        await leave.wait()
        return 2

    @workflow
    async def work() -> int:
        found = await shaky()
        await sleep("1h")
        return found + await slow() + await go.wait()

    async def folded() -> Run:
        assert isinstance(run, ClientRun)
        return fold(run.id, await run.history())

    app = still.app(work)
    async with still.worker(app) as worker:
        run = await app.start(work())
        await still.until_waiting(run, "sleeping")
        await still.until_parked(run)
        (kept,) = worker.engine.warm.values()
        assert kept.run == await folded()
        forget_programs(worker)
        await still.advance("1h")
        await entered.wait()
        assert worker.engine.sessions[run.id].run == await folded()
        leave.set()
        await run.signal(go, 4)
        assert await run.result("60s") == 7


@pytest.mark.spec("vectorbea.V3", "vectorbea.V12", "vectorbea.V22", "vectorbea.V23", "traps.B10", "traps.A5")
@pytest.mark.parametrize("cold", [False, True])
async def test_warm_and_cold_resumes_agree(still: World, cold: bool) -> None:
    """Promise: a program kept in memory goes on without replay; one rebuilt from the journal does the same things."""
    bodies: list[str] = []
    ran: list[str] = []

    @step
    async def note(name: str) -> str:
        ran.append(name)
        return name

    @workflow
    async def work() -> str:
        bodies.append("begun")
        found = ""
        for number in range(3):
            found += await note(f"{number}")
            await sleep("1h")
        return found + str(await go.wait())

    app = still.app(work)
    async with still.worker(app) as worker:
        run = await app.start(work())
        for number in range(3):
            await still.until(lambda: len(ran) == number + 1)  # noqa: B023 awaited in this turn of the loop
            await still.until_waiting(run, "sleeping")
            await still.until_parked(run)
            if cold:
                forget_programs(worker)
            await still.advance("1h")
        await run.signal(go, 9)
        assert await run.result("60s") == "0129"
    assert ran == ["0", "1", "2"]
    assert len(bodies) == (4 if cold else 1)
    assert isinstance(run, ClientRun)
    folded = project(fold(run.id, await run.history()))
    row = await still.row(run)
    assert (folded.status, folded.ended_at, folded.doing) == (row.status, row.ended_at, row.doing)


@pytest.mark.spec("vectorbea.V12")
async def test_a_warm_program_of_a_run_that_moved_elsewhere_is_not_used(still: World) -> None:
    """Promise: if another worker held the run in between, the program in memory is thrown away."""

    @workflow
    async def work() -> list[int]:
        return [await go.wait(), await go.wait(), await go.wait()]

    app = still.app(work)
    async with still.worker(app) as first:
        run = await app.start(work())
        await still.until_parked(run)
        first.is_stopping = True  # it stays, but claims nothing meanwhile
        first.work_hinted.set()
        await asyncio.wait([first._tasks[0]])
        async with still.worker(still.app(work)):
            await run.signal(go, 1)

            async def taken() -> bool:
                row = await still.row(run)
                return row.inbox_read == 1 and not row.instance

            await still.until(taken)
        await run.signal(go, 2)
        await run.signal(go, 3)
        claims = (await still.row(run)).epoch
        first.is_stopping = False
        first._tasks[0] = asyncio.create_task(claim_until_stopped(first))
        assert await run.result("60s") == [1, 2, 3]
    assert (await still.row(run)).epoch == claims + 1, "used, it would have been fenced and claimed again"


async def test_a_run_that_cannot_be_opened_keeps_no_slot(still: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: a session that breaks as it opens is dropped: its worker takes other runs, and the run comes back."""

    @workflow
    async def quick() -> str:
        return "done"

    real, broken = Session.open, list[str]()

    def opened(self: Session, *how: Any) -> None:
        if self.run.id == "odd" and not broken:
            broken.append(self.run.id)
            raise RuntimeError("broken")
        real(self, *how)

    monkeypatch.setattr(Session, "open", opened)
    app, client = still.app(quick), still.app(quick)
    odd = await client.start(quick(), id="odd")
    async with still.worker(app, concurrency=1) as worker:
        await still.until(lambda: broken and not worker.engine.sessions, "the broken session is dropped")
        other = await client.start(quick(), id="other")
        assert await other.result("60s") == "done"
        await still.advance("10s")
        assert await odd.result("60s") == "done"
