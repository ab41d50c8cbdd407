"""Leases granted outside the store: who may try is the manager's word, who commits is the store's."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import App, Signal, current, step, workflow
from holdfast.adapters.memory.grants import MemoryGrants
from holdfast.ports.grants import Grant
from tests.support.faults import FaultyStore
from tests.support.world import World, crash, seconds

TTL = "15s"
LEASE = seconds(15)


class Stage:
    """One step that stands still until it is let go."""

    def __init__(self) -> None:
        self.began: list[int] = []
        self.leave = asyncio.Event()
        stage = self

        @step
        async def slow() -> int:
            stage.began.append(current().attempt)
            await stage.leave.wait()
            return len(stage.began)

        @workflow
        async def work() -> int:
            return await slow()

        self.work = work


def calm(**options: Any) -> dict[str, Any]:
    """A worker that neither polls nor beats by itself while the test looks."""
    return {"ttl": "1000s", "poll": "400s", **options}


@pytest.mark.spec("stepflow.L1", "stepflow.L16", "stepflow.R5")
async def test_a_run_is_claimed_with_a_grant_and_given_back_with_it(still: World) -> None:
    """Promise: pending until the grant is there; granted while it is held; free when the run ends."""
    stage, grants = Stage(), MemoryGrants(still.clock)
    app = still.app(stage.work, leases=grants)
    async with still.worker(app, id="w1", ttl=TTL):
        run = await app.start(stage.work())
        await still.until(lambda: stage.began == [1])
        grant = await grants.get(run.id)
        assert grant is not None
        assert grant.worker == "w1"
        stage.leave.set()
        assert await run.result("30s") == 1

        async def is_free() -> bool:
            return await grants.get(run.id) is None

        await still.until(is_free)


@pytest.mark.spec("stepflow.R4", "stepflow.R3", "stepflow.M11", "stepflow.L3")
async def test_a_run_whose_owner_lives_is_left_to_it(still: World) -> None:
    """Promise: the store thought the owner dead, the manager knows better: the owner is written back and goes on with
    its epoch; who asked has loaded nothing, fenced nobody, and counted the contention."""
    stage, grants = Stage(), MemoryGrants(still.clock)
    faulty = FaultyStore(still.store)
    first = still.app(stage.work, leases=grants)
    second = App(workflows=[stage.work], store=faulty.store, leases=grants)
    async with still.worker(first, id="w1", **calm(ttl="900s")) as owner:
        run = await first.start(stage.work())
        await still.until(lambda: stage.began == [1])
        async with still.worker(second, id="w2", **calm()) as other:
            grants.heartbeat("w1", LEASE * 100)
            still.clock.advance(seconds(900))
            assert await still.store.lease(run.id) is None
            await still.beat(other)
            await still.until(lambda: other.recovery.count("contended") == 1)
            assert faulty.calls["read"] == 0

            async def is_back() -> bool:
                row = await still.row(run)
                return (row.worker, row.instance, row.epoch) == ("w1", owner.options.instance, 1)

            await still.until(is_back)
            assert "w1" in other.recovery.recent[0].detail
            await still.beat(owner)
            stage.leave.set()
            assert await run.result("30s") == 1
    assert stage.began == [1]


@pytest.mark.spec("stepflow.R4", "stepflow.R2", "stepflow.M11", "stepflow.L5")
async def test_a_run_whose_owner_is_gone_is_taken_over_and_renamed(still: World) -> None:
    """Promise: the row still names a dead worker; whoever gets the grant claims, and writes itself into the row."""
    stage, grants = Stage(), MemoryGrants(still.clock)
    app = still.app(stage.work, leases=grants)
    async with still.worker(app, id="w1", ttl=TTL) as worker:
        run = await app.start(stage.work())
        await still.until(lambda: stage.began == [1])
        await crash(worker)
    assert (await still.row(run)).worker == "w1"
    async with still.worker(app, id="w2", ttl=TTL) as worker:
        await still.beat(worker)
        assert stage.began == [1]
        still.clock.advance(LEASE * 2)
        await still.beat(worker)
        await still.until(lambda: stage.began == [1, 2])
        row, grant = await still.row(run), await grants.get(run.id)
        assert grant is not None
        assert (row.worker, row.epoch, grant.worker) == ("w2", 2, "w2")
        stage.leave.set()
        assert await run.result("30s") == 2


@pytest.mark.spec("stepflow.L4", "stepflow.R1", "stepflow.L15")
async def test_a_restarted_worker_has_its_grants_already(still: World) -> None:
    """Promise: the same id acquires what is its own at once, though the grant of the crashed instance still holds."""
    stage, grants = Stage(), MemoryGrants(still.clock)
    app = still.app(stage.work, leases=grants)
    async with still.worker(app, id="w1", ttl=TTL) as worker:
        run = await app.start(stage.work())
        await still.until(lambda: stage.began == [1])
        await crash(worker)
    assert await grants.get(run.id) is not None
    async with still.worker(app, id="w1", ttl=TTL) as worker:
        await still.until(lambda: stage.began == [1, 2])
        assert worker.recovery.count("own") == 1
        stage.leave.set()
        assert await run.result("30s") == 2


@pytest.mark.spec("stepflow.C5", "stepflow.L7")
async def test_a_stopping_worker_gives_its_grants_back(still: World) -> None:
    """Promise: others go on at once, without waiting for any lease: time stands still here."""
    stage, grants = Stage(), MemoryGrants(still.clock)
    app, other = still.app(stage.work, leases=grants), still.app(stage.work, leases=grants)
    async with still.worker(app, id="w1", ttl=TTL, grace="10ms"):
        run = await app.start(stage.work())
        await still.until(lambda: stage.began == [1])
        kept = await grants.acquire("somebody's", "w3", LEASE)
    assert await grants.get(run.id) is None
    assert await grants.get("somebody's") == kept
    stage.leave.set()
    async with still.worker(other, id="w2", ttl=TTL):
        assert await run.result("30s") == 2


async def test_a_manager_that_is_wrong_never_doubles_a_run(still: World) -> None:
    """Promise: two workers of one id both get the grant; the store's epoch lets one of them commit."""
    stage, grants = Stage(), MemoryGrants(still.clock)
    first, second = still.app(stage.work, leases=grants), still.app(stage.work, leases=grants)
    async with still.worker(first, id="w1", **calm()) as stale:
        run = await first.start(stage.work())
        await still.until(lambda: stage.began == [1])
        async with still.worker(second, id="w1", **calm()):
            await still.until(lambda: stage.began == [1, 2])
            stage.leave.set()
            assert await run.result("30s") == 2
            await still.until(lambda: run.id not in stale.engine.sessions)
    assert (await still.row(run)).epoch == 2


async def test_a_worker_written_back_as_owner_after_it_let_go_lets_go_again(still: World) -> None:
    """Promise: whoever was told of an owner writes it back, perhaps too late; the run does not stand still for it."""
    go = Signal[int]("go")

    @workflow
    async def waiting() -> int:
        return await go.wait()

    app = still.app(waiting, leases=MemoryGrants(still.clock))
    async with still.worker(app, id="w1", ttl=TTL):
        run = await app.start(waiting())
        await still.until_waiting(run, "signal go")
        await still.until_parked(run)
        assert await still.store.reinstate(run.id, worker="w1", until=still.clock.now() + LEASE)
        await run.signal(go, 7)
        assert await run.result("60s") == 7


async def test_a_grant_that_goes_away_wakes_the_workers(still: World) -> None:
    """Promise: nobody waits for its poll when the manager tells of an orphan."""
    stage, grants = Stage(), MemoryGrants(still.clock)
    app = still.app(stage.work, leases=grants)
    held = await grants.acquire("r", "w9", LEASE)
    assert isinstance(held, Grant)
    run = await app.start(stage.work(), id="r")
    async with still.worker(app, id="w1", **calm()) as worker:
        await still.until(lambda: worker.recovery.count("contended") == 1)
        assert (await still.row(run)).available_at == held.expires_at
        still.clock.advance(LEASE)
        assert await grants.get("r") is None
        stage.leave.set()
        assert await run.result("30s") == 1
