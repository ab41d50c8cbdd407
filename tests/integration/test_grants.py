"""Leases granted outside the store: who may try is the manager's word, who commits is the store's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial

import msgspec
import pytest

from holdfast import App, workflow
from holdfast.adapters.memory.grants import MemoryGrants
from holdfast.errors import StoreUnavailable
from holdfast.ports.clock import Clock
from holdfast.ports.grants import Acquiring, Grant, OwnedBy, Releasing
from holdfast.worker import granted_claims
from holdfast.worker.worker import Worker
from tests.support.faults import FaultyStore
from tests.support.grants import LEASE, Stage, calm
from tests.support.world import World, crash, seconds

TTL = "15s"


class Behind(MemoryGrants):
    """A manager whose clock is behind that of the store."""

    def __init__(self, clock: Clock, behind: timedelta) -> None:
        super().__init__(clock)
        self._behind = behind

    async def acquire_many(self, runs: Sequence[str], worker: str, ttl: timedelta) -> Mapping[str, Acquiring]:
        answers = await super().acquire_many(runs, worker, ttl)
        replace = msgspec.structs.replace
        return {run: replace(x, expires_at=x.expires_at - self._behind) for run, x in answers.items()}


class SlowToLetGo(MemoryGrants):
    """A manager to whom something happens before it lets grants go."""

    asked = 0
    refused = 0
    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def acquire_many(self, runs: Sequence[str], worker: str, ttl: timedelta) -> Mapping[str, Acquiring]:
        answers = await super().acquire_many(runs, worker, ttl)
        self.refused += sum(isinstance(answer, OwnedBy) for answer in answers.values())
        return answers

    async def release(self, run: str, worker: str) -> Releasing:
        await self._happens()
        return await super().release(run, worker)

    async def release_all(self, worker: str) -> Sequence[str]:
        await self._happens()
        return await super().release_all(worker)

    async def _happens(self) -> None:
        self.asked += 1
        if self.meanwhile is not None:
            await self.meanwhile()


class SlowToAnswer(MemoryGrants):
    """A manager whose refusals take so long that the owner has given the run back before they arrive."""

    is_watched = False

    def orphans(self) -> AsyncIterator[str]:
        self.is_watched = True
        return super().orphans()

    async def acquire_many(self, runs: Sequence[str], worker: str, ttl: timedelta) -> Mapping[str, Acquiring]:
        answers = await super().acquire_many(runs, worker, ttl)
        for run, answer in answers.items():
            if isinstance(answer, OwnedBy):
                await self.release(run, answer.worker)
        await asyncio.sleep(0.05)  # the worker hears of it first
        return answers


async def look_around(world: World, worker: Worker, asked: FaultyStore) -> None:
    """The worker, which asks this store, looks for due runs, and has done with those it finds."""

    def has_looked(times: int) -> bool:
        return asked.calls["due"] >= times

    for times in range(asked.calls["due"] + 1, asked.calls["due"] + 3):  # the second begins when the first has ended
        worker.work_hinted.set()
        await world.until(partial(has_looked, times))


async def out_of_reach() -> None:
    raise StoreUnavailable("the manager is away")


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
    """Promise: the store thought the owner dead, the manager knows better. Who asked has loaded nothing, written
    nothing and counted the contention; the owner writes itself back and goes on with its epoch."""
    stage, grants = Stage(), MemoryGrants(still.clock)
    owned, asked = FaultyStore(still.store), FaultyStore(still.store)
    owned.fail("held", *range(1, 1000))  # the owner does not look yet
    first = App(workflows=[stage.work], store=owned.store, leases=grants)
    second = App(workflows=[stage.work], store=asked.store, leases=grants)
    async with still.worker(first, id="w1", **calm(ttl="900s")) as owner:
        run = await first.start(stage.work())
        await still.until(lambda: stage.began == [1])
        async with still.worker(second, id="w2", **calm()) as other:
            grants.heartbeat("w1", LEASE * 100)
            still.clock.advance(seconds(900))
            assert await still.store.lease(run.id) is None
            await still.beat(other)
            await still.until(lambda: other.recovery.count("contended") == 1)
            assert (asked.calls["read"], asked.calls["claim"], asked.calls["reinstate"]) == (0, 0, 0)
            assert "w1" in other.recovery.recent[0].detail
            await still.beat(owner)
            owned.clear()
            await owner.engine.check_held(owner.options.instance)
            row = await still.row(run)
            assert (row.worker, row.instance, row.epoch) == ("w1", owner.options.instance, 1)
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


@pytest.mark.parametrize("behind", [seconds(0), LEASE * 10], ids=["right", "behind"])
async def test_a_grant_that_outlives_the_lease_is_waited_for_once(still: World, behind: timedelta) -> None:
    """Promise: a worker that is killed between two heartbeats has grants that hold longer than its lease. Who finds its
    runs waits, whatever the manager's clock shows, and says so once; then takes over."""
    stage, grants, asked = Stage(), Behind(still.clock, behind), FaultyStore(still.store)
    first = still.app(stage.work, leases=grants)
    second = App(workflows=[stage.work], store=asked.store, leases=grants)
    async with still.worker(first, id="w1", ttl=TTL) as worker:
        still.clock.advance(LEASE / 3)
        run = await first.start(stage.work())
        await still.until(lambda: stage.began == [1])
        await crash(worker)
    async with still.worker(second, id="w2", **calm()) as worker:
        still.clock.advance(LEASE * 2 / 3)
        await still.beat(worker)
        await still.until(lambda: worker.recovery.count("contended") == 1)
        for _ in range(5):
            await still.beat(worker)
            await look_around(still, worker, asked)
        assert (asked.calls["claim"], worker.recovery.count("contended")) == (0, 1)
        assert (await still.row(run)).instance == ""
        still.clock.advance(LEASE / 3)
        await still.beat(worker)
        await still.until(lambda: stage.began == [1, 2])
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


async def test_a_worker_that_came_back_full_keeps_no_run_from_an_idle_one(still: World) -> None:
    """Promise: its heartbeat keeps the run that it took back; the other runs of its earlier process expire, and go to a
    worker with room."""
    stage, grants = Stage(), MemoryGrants(still.clock)
    again, elsewhere = MemoryGrants(of=grants), MemoryGrants(of=grants)
    async with still.worker(still.app(stage.work, leases=grants), id="w1", ttl=TTL) as worker:
        app = still.app(stage.work)
        runs = [await app.start(stage.work()) for _ in range(2)]
        await still.until(lambda: stage.began == [1, 1])
        await crash(worker)
    grants.heartbeat("w1", LEASE)
    async with (
        still.worker(still.app(stage.work, leases=again), id="w1", concurrency=1),
        still.worker(still.app(stage.work, leases=elsewhere), id="w2") as idle,
    ):
        await still.until(lambda: stage.began == [1, 1, 2])
        again.heartbeat("w1", LEASE * 100)
        still.clock.advance(LEASE)
        await still.beat(idle)
        await still.until(lambda: stage.began == [1, 1, 2, 2])
        assert sorted([(await still.row(run)).worker for run in runs]) == ["w1", "w2"]
        stage.leave.set()
        assert [await run.result("30s") for run in runs] == [4, 4]


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


@pytest.mark.spec("stepflow.C5", "stepflow.L7")
async def test_a_stopping_worker_gives_its_grants_back_before_its_runs(still: World) -> None:
    """Promise: whoever looks while the manager takes its time meets no run whose grant is not free yet, and so puts
    none off: time stands still here."""
    stage, grants, asked = Stage(), SlowToLetGo(still.clock), FaultyStore(still.store)
    first = still.app(stage.work, leases=grants)
    second = App(workflows=[stage.work], store=asked.store, leases=grants)
    async with still.worker(first, id="w1", **calm(grace="10ms")) as owner:
        run = await first.start(stage.work())
        await still.until(lambda: stage.began == [1])
        async with still.worker(second, id="w2", **calm()) as other:
            grants.meanwhile = partial(look_around, still, other, asked)
            await owner.stop()
            grants.meanwhile = None
            await still.until(lambda: stage.began == [1, 2])
            assert grants.refused == 0, "a worker met a run that it could not have"
            stage.leave.set()
            assert await run.result("30s") == 2


async def test_a_refusal_older_than_the_news_of_the_run_is_not_waited_for(
    still: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: the manager told of the run as free while it refused it: the worker asks again at once, and does not
    rest for as long as it would leave the run to an owner."""
    monkeypatch.setattr(granted_claims, "FIRST_REST", 300.0)
    stage, grants = Stage(), SlowToAnswer(still.clock)
    stage.leave.set()
    app = still.app(stage.work, leases=grants)
    await grants.acquire("r", "w1", LEASE)
    async with still.worker(app, id="w2", **calm()):
        await still.until(lambda: grants.is_watched)
        run = await app.start(stage.work(), id="r")
        assert await run.result("30s") == 1


@pytest.mark.parametrize("broken", ["store", "manager"])
async def test_what_is_not_given_back_to_one_is_given_back_to_the_other(still: World, broken: str) -> None:
    """Promise: a store or a manager that does not answer a worker that goes keeps the other from nothing."""
    stage, grants, faulty = Stage(), SlowToLetGo(still.clock), FaultyStore(still.store)
    app = App(workflows=[stage.work], store=faulty.store, leases=grants)
    async with still.worker(app, id="w1", grace="10ms"):
        run = await app.start(stage.work())
        await still.until(lambda: stage.began == [1])
        await grants.acquire("another", "w1", LEASE)
        if broken == "store":
            faulty.fail("release_all", 1)
        else:
            grants.meanwhile = out_of_reach
    is_free = (await still.row(run)).instance == ""
    assert (is_free, await grants.get("another") is None) == (broken != "store", broken != "manager")


async def test_a_grant_that_could_not_be_given_back_is_given_back_later(still: World) -> None:
    """Promise: a manager that was away for a moment leaves no grant behind that nobody else can have."""
    stage, grants = Stage(), SlowToLetGo(still.clock)
    app = still.app(stage.work, leases=grants)
    stage.leave.set()
    grants.meanwhile = out_of_reach
    async with still.worker(app, id="w1", ttl=TTL):
        run = await app.start(stage.work())
        assert await run.result("30s") == 1
        await still.until(lambda: grants.asked >= 1)
        assert await grants.get(run.id) is not None
        grants.meanwhile = None

        async def is_free() -> bool:
            return await grants.get(run.id) is None

        await still.until(is_free)


async def test_an_own_run_of_a_missing_definition_is_counted_and_named(
    still: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise: a worker that comes back without a workflow says which of its runs it puts off, with a manager too."""
    stage, grants = Stage(), MemoryGrants(still.clock)
    app = still.app(stage.work, leases=grants)
    async with still.worker(app, id="w1", ttl=TTL) as worker:
        await app.start(stage.work(), id="homeless")
        await still.until(lambda: stage.began == [1])
        await crash(worker)

    @workflow(name="something_else")
    async def something_else() -> None: ...

    async with still.worker(still.app(something_else, leases=grants), id="w1", ttl=TTL) as worker:
        await still.until(lambda: worker.recovery.counts == {"missing definition": 1})
        assert (await still.row("homeless")).bounces == 1
    assert "run homeless: put off" in caplog.text


async def test_an_own_run_that_another_has_is_counted_once(still: World) -> None:
    """Promise: what the manager refuses is one contention, though the store then names the owner too."""
    stage, grants = Stage(), MemoryGrants(still.clock)
    app = still.app(stage.work, leases=grants)
    async with still.worker(app, id="w1", ttl=TTL) as worker:
        run = await app.start(stage.work())
        await still.until(lambda: stage.began == [1])
        await crash(worker)
    await grants.release(run.id, "w1")
    assert isinstance(await grants.acquire(run.id, "w2", LEASE), Grant)
    looked = FaultyStore(still.store)
    app = App(workflows=[stage.work], store=looked.store, leases=grants)
    async with still.worker(app, id="w1", **calm()) as worker:
        await still.until(lambda: looked.calls["due"] > 0)  # its own runs were tried
        assert worker.recovery.counts == {"contended": 1}
        assert (await still.row(run)).instance == ""


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


async def test_a_grant_that_goes_away_wakes_the_workers(still: World) -> None:
    """Promise: nobody waits for its poll when the manager tells of an orphan."""
    stage, grants = Stage(), MemoryGrants(still.clock)
    app = still.app(stage.work, leases=grants)
    held = await grants.acquire("r", "w9", LEASE)
    assert isinstance(held, Grant)
    run = await app.start(stage.work(), id="r")
    async with still.worker(app, id="w1", **calm()) as worker:
        await still.until(lambda: worker.recovery.count("contended") == 1)
        still.clock.advance(LEASE)
        assert await grants.get("r") is None
        stage.leave.set()
        assert await run.result("30s") == 1


@pytest.mark.parametrize("is_error", [True, False])
async def test_a_stream_of_orphans_that_ends_is_taken_up_again(
    still: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_error: bool
) -> None:
    """Promise: a manager that was away tells of orphans again when it is back; that it was is said."""

    class Interrupted(MemoryGrants):
        streams = 0

        def orphans(self) -> AsyncIterator[str]:
            self.streams += 1
            return self._cut_off() if self.streams < 3 else super().orphans()

        async def _cut_off(self) -> AsyncIterator[str]:
            yield "somebody's"
            if is_error:
                raise ConnectionResetError("by peer")

    monkeypatch.setattr(granted_claims, "PAUSE", 0.001)
    stage, grants = Stage(), Interrupted(still.clock)
    stage.leave.set()
    app = still.app(stage.work, leases=grants)
    await grants.acquire("r", "w9", LEASE)
    run = await app.start(stage.work(), id="r")
    async with still.worker(app, id="w1", **calm()) as worker:
        await still.until(lambda: grants.streams == 3)
        await still.until(lambda: worker.recovery.count("contended") >= 1)
        still.clock.advance(LEASE)
        assert await grants.get("r") is None
        assert await run.result("30s") == 1
    assert ("by peer" in caplog.text) == is_error
