"""A store that does not grow forever: what retention takes, what it leaves, and who does it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from holdfast import App, Signal, Status, workflow
from holdfast.ports.runs import Filter
from holdfast.upkeep.sweep import Swept, sweep, sweepable
from holdfast.worker.sweep_loop import sweep_if_free
from tests.support.faults import FaultyStore
from tests.support.world import World

go = Signal[str]("go")


@workflow(keep="7d")
async def brief() -> int:
    return 1


@workflow
async def usual() -> int:
    return 2


@workflow
async def waiting() -> str:
    return await go.wait()


async def ended(world: World, app: App, *calls: tuple[Any, str]) -> None:
    async with world.worker(app):
        for call, run_id in calls:
            run = await app.start(call, id=run_id)
            assert await run.wait("30s") is Status.COMPLETED
        await app.start(waiting(), id="waits")


@pytest.mark.spec("stepflow.J12")
async def test_ended_runs_go_after_their_time(still: World) -> None:
    """Promise: those of a workflow with `keep=` after that, others after what the app says; running ones stay."""
    app = still.app(brief, usual, waiting)
    await ended(still, app, (brief(), "b"), (usual(), "u"))
    async with still.worker(app) as worker:
        assert await sweep_if_free(worker) == Swept()
        still.clock.advance(timedelta(days=8))
        assert (await sweepable(still.store, timedelta(days=30))).removed.trees == 1
        swept = await sweep_if_free(worker)
        assert swept is not None
        assert (swept.removed.trees, swept.removed.runs) == (1, 1)
        assert [run is None for run in [await still.store.get(name) for name in ("b", "u", "waits")]] == [
            True,
            False,
            False,
        ]
        still.clock.advance(timedelta(days=23))
        swept = await sweep_if_free(worker)
        assert swept is not None
        assert swept.removed.trees == 1
        assert await still.store.get("waits") is not None


async def test_an_app_may_keep_runs_for_ever(still: World) -> None:
    """Promise: `keep=None` removes nothing but what says it itself."""
    app = still.app(brief, usual, waiting, keep=None)
    await ended(still, app, (brief(), "b"), (usual(), "u"))
    still.clock.advance(timedelta(days=3000))
    async with still.worker(app) as worker:
        await sweep_if_free(worker)
    assert await still.store.get("b") is None
    assert await still.store.get("u") is not None


async def test_one_worker_at_a_time_sweeps(still: World) -> None:
    """Promise: while one is at it others leave it alone; its death ends its turn."""
    app = still.app(usual, waiting)
    await ended(still, app, (usual(), "u"))
    still.clock.advance(timedelta(days=31))
    async with still.worker(app, id="one") as one, still.worker(still.app(usual), id="two") as two:
        assert await still.store.take_duty("sweep", holder=one.options.instance, ttl=timedelta(minutes=2))
        assert await sweep_if_free(two) is None
        assert await still.store.get("u") is not None
        still.clock.advance(timedelta(minutes=2))
        swept = await sweep_if_free(two)
        assert swept is not None
        assert swept.removed.trees == 1
        assert await sweep_if_free(one) is not None


@pytest.mark.parametrize("verb", ["expired", "remove", "collect", "take_duty", "drop_duty"])
@pytest.mark.parametrize("mode", ["refused", "answer lost"])
async def test_a_sweep_that_breaks_is_done_by_the_next(still: World, verb: str, mode: Any) -> None:
    """Promise: wherever it breaks, the next sweep removes the rest, and nothing but that."""
    app = still.app(usual, waiting)
    await ended(still, app, *((usual(), f"u{number}") for number in range(3)))
    still.clock.advance(timedelta(days=31))
    faulty = FaultyStore(still.store)
    faulty.fail(verb, 1, mode=mode)
    async with still.worker(App(workflows=[usual], store=faulty.store)) as worker:
        with pytest.raises(Exception, match="injected"):
            await sweep_if_free(worker)
        still.clock.advance(timedelta(minutes=3))
        await sweep_if_free(worker)
    assert [run.id for run in (await still.store.list(Filter())).runs] == ["waits"]
    assert faulty.fired


async def test_an_id_is_free_after_retention(still: World) -> None:
    """Promise: the same id then starts a new run: idempotency by id lasts as long as the run is kept."""
    app = still.app(usual, waiting)
    await ended(still, app, (usual(), "u"))
    first = (await still.row("u")).no
    still.clock.advance(timedelta(days=31))
    await sweep(still.store, timedelta(days=30))
    async with still.worker(app):
        run = await app.start(usual(), id="u")
        assert await run.result("30s") == 2
    assert (await still.row("u")).no != first
