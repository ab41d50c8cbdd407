"""A lease manager and a store that disagree for a while: who is refused writes nothing, and the owner heals it."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from holdfast import App, Signal, workflow
from holdfast.adapters.memory.grants import MemoryGrants
from holdfast.config import Configuration, LeaseSettings
from holdfast.ports.grants import Grant
from holdfast.ports.leases import Taken
from tests.support.faults import FaultyStore
from tests.support.grants import LEASE, Asked, Stage, calm, freed_by_mistake
from tests.support.world import World


@pytest.mark.spec("stepflow.R4", "stepflow.M11")
async def test_a_run_freed_by_mistake_stays_with_its_owner(still: World) -> None:
    """Promise: an owner that the store forgot asks the manager before it drops a run, and its body runs once."""
    stage, grants = Stage(), MemoryGrants(still.clock)
    app = still.app(stage.work, leases=grants)
    async with still.worker(app, id="w1", **calm()) as owner:
        run = await app.start(stage.work())
        await still.until(lambda: stage.began == [1])
        await freed_by_mistake(still, run, owner)
        await owner.engine.check_held(owner.options.instance)
        assert run.id in owner.engine.sessions
        assert (await still.row(run)).instance == owner.options.instance
        stage.leave.set()
        assert await run.result("30s") == 1
    assert stage.began == [1]


async def test_a_run_freed_by_mistake_waits_for_the_managers_word(still: World) -> None:
    """Promise: a manager that does not answer makes nobody drop a run that nobody else has claimed; one that answers
    again has the last word."""
    stage, grants = Stage(), Asked(still.clock)
    app = still.app(stage.work, leases=grants)
    async with still.worker(app, id="w1", **calm()) as owner:
        run = await app.start(stage.work())
        await still.until(lambda: stage.began == [1])
        await freed_by_mistake(still, run, owner)
        grants.is_away = True
        await owner.engine.check_held(owner.options.instance)
        assert run.id in owner.engine.sessions
        grants.is_away = False
        assert isinstance(await grants.acquire(run.id, "w2", LEASE), Grant)
        await owner.engine.check_held(owner.options.instance)
        assert run.id not in owner.engine.sessions
        assert (await still.row(run)).epoch == 1


async def test_a_run_that_another_claimed_is_dropped_though_the_manager_is_away(still: World) -> None:
    """Promise: the store's epoch is enough to know that a run is another's."""
    stage, grants = Stage(), Asked(still.clock)
    app = still.app(stage.work, leases=grants)
    async with still.worker(app, id="w1", **calm()) as owner:
        run = await app.start(stage.work())
        await still.until(lambda: stage.began == [1])
        await freed_by_mistake(still, run, owner)
        grants.is_away = True
        assert isinstance(await still.store.take(run.id, instance="checker"), Taken)
        await owner.engine.check_held(owner.options.instance)
        assert run.id not in owner.engine.sessions


async def test_a_run_that_parks_while_its_owner_is_written_back_is_not_held(
    still: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise: a row that is written back just after its owner has parked the run is given back at once; nobody waits
    for two comparisons."""
    stage, go = Stage(), Signal[int]("go")

    @workflow
    async def waiting() -> int:
        await stage.slow()
        return await go.wait()

    wire = FaultyStore(still.store)
    app = App(workflows=[waiting], store=wire.store, leases=MemoryGrants(still.clock))
    async with still.worker(app, id="w1", **calm()) as owner:
        run = await app.start(waiting())
        await still.until(lambda: stage.began == [1])
        await freed_by_mistake(still, run, owner)

        async def parks(name: str, args: tuple[Any, ...]) -> None:
            if name == "reinstate":
                wire.before = None
                stage.leave.set()
                await still.until(lambda: run.id not in owner.engine.sessions)

        wire.before = parks
        await owner.engine.check_held(owner.options.instance)
        assert wire.before is None
        await run.signal(go, 7)
        assert await run.result("30s") == 7
    assert "not known here" not in caplog.text


async def test_a_pass_asks_the_manager_once_for_all_its_runs(still: World) -> None:
    """Promise: the manager is asked once a pass, however many runs are due; never once a run."""
    stage, grants = Stage(), Asked(still.clock)
    app = still.app(stage.work, leases=grants)
    runs = [await app.start(stage.work()) for _ in range(40)]
    async with still.worker(app, id="w1", **calm()):
        await still.until(lambda: len(stage.began) == len(runs))
        assert grants.asked == 1
        stage.leave.set()
        for run in runs:
            await run.result("30s")


async def test_a_grant_whose_answer_was_lost_is_given_back(still: World) -> None:
    """Promise: heartbeats keep every grant of a worker, also one that it never heard of; so what it asked for and got
    no answer about is given back."""
    stage, grants, wire = Stage(), Asked(still.clock), FaultyStore(still.store)
    config = Configuration(leases=LeaseSettings(on_loss="stop"))
    app = App(workflows=[stage.work], store=wire.store, leases=grants, config=config)
    run = await app.start(stage.work())
    grants.loses = 1
    wire.fail("due", *range(2, 100))
    async with still.worker(app, id="w1", **calm()):
        await still.until(lambda: grants.asked == 1)

        async def is_free() -> bool:
            return await grants.get(run.id) is None

        await still.until(is_free)


async def test_runs_of_others_keep_nobody_from_the_rest(still: World) -> None:
    """Promise: a worker with one slot passes over runs that others have, however many there are and however early."""
    stage, grants = Stage(), MemoryGrants(still.clock)
    app = still.app(stage.work, leases=grants)
    for number in range(5):
        await grants.acquire(f"r{number}", "w9", LEASE)
        await app.start(stage.work(), id=f"r{number}")
    run = await app.start(stage.work(), id="free")
    stage.leave.set()
    async with still.worker(app, id="w1", **calm(concurrency=1)):
        assert await run.result("30s") == 1


def losing(still: World, stage: Stage, grants: Asked, on_loss: Literal["store", "stop"]) -> App:
    config = Configuration(leases=LeaseSettings(on_loss=on_loss))
    return App(workflows=[stage.work], store=still.store, leases=grants, config=config)


async def test_a_worker_goes_by_the_store_while_its_manager_is_away(
    still: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise: with `on_loss = "store"` runs begin without the manager, which is said once; when it answers again, the
    worker gets the grants of what it has."""
    stage, grants = Stage(), Asked(still.clock)
    app = losing(still, stage, grants, "store")
    grants.is_away = True
    run = await app.start(stage.work())
    async with still.worker(app, id="w1", **calm()) as worker:
        await still.until(lambda: stage.began == [1])
        assert await grants.get(run.id) is None
        assert (await still.row(run)).worker == "w1"
        grants.is_away = False

        async def is_granted() -> bool:
            worker.work_hinted.set()
            return await grants.get(run.id) is not None

        other = await app.start(stage.work())  # the manager is asked when there is something to ask for
        await still.until(is_granted)
        stage.leave.set()
        assert [await one.result("30s") for one in (run, other)] == [2, 2]

        async def are_free() -> bool:
            return [await grants.get(one.id) for one in (run, other)] == [None, None]

        await still.until(are_free)
    assert caplog.text.count("using the store's leases") == 1


async def test_a_worker_claims_nothing_while_its_manager_is_away(still: World) -> None:
    """Promise: with `on_loss = "stop"` what is held goes on to its end, and nothing new begins until it answers."""
    stage, grants = Stage(), Asked(still.clock)
    app = losing(still, stage, grants, "stop")
    first = await app.start(stage.work())
    async with still.worker(app, id="w1", **calm()):
        await still.until(lambda: stage.began == [1])
        grants.is_away, asked = True, grants.asked
        second = await app.start(stage.work())
        await still.until(lambda: grants.asked > asked + 1)
        assert (await still.row(second)).instance == ""
        stage.leave.set()
        assert await first.result("30s") == 1
        assert stage.began == [1]
        grants.is_away = False
        assert await second.result("30s") == 2
