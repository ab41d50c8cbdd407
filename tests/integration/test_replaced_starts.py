"""`start(…, unique=VALUE, if_exists="replace")`: the open run is cancelled, and the new one begins after its end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast import App, Signal, Status, sleep, step, sync, workflow
from holdfast.errors import InvalidInput, RunCancelled
from holdfast.testing import Sim
from tests.support.world import World

PATIENCE = 60.0
go = Signal[bool]("go")
cleaned = Signal[bool]("cleaned")
entered = set[str]()


@workflow
async def watch(account: str) -> str:
    """Holds on until it is told to go; its clean-up waits for a signal."""
    entered.add(account)
    try:
        await go.wait()
    except asyncio.CancelledError:
        await cleaned.wait()
        raise
    return account


async def test_the_new_run_begins_when_the_clean_up_of_the_old_one_is_done(world: World) -> None:
    """Promise: the old run is cancelled at once, and no code of the new one runs before it has ended."""
    app = world.app(watch)
    async with world.worker(app):
        old = await app.start(watch("a"), unique="u")
        await world.until_waiting(old, "waiting for signal go")
        new = await app.start(watch("b"), unique="u", if_exists="replace")
        assert new.id != old.id
        await world.until_waiting(old, "waiting for signal cleaned")
        assert (await new.view()).waiting == f"begins after the end of run {old.id}"
        assert (await new.view()).status is Status.PENDING
        await old.signal(cleaned, True)
        await world.until_waiting(new, "waiting for signal go")
        with pytest.raises(RunCancelled, match=f"replaced by run {new.id}"):
            await old.result(timeout=PATIENCE)
        await new.signal(go, True)
        assert await new.result(timeout=PATIENCE) == "b"


async def test_of_several_only_the_newest_survives(world: World) -> None:
    """Promise: those between never begin, end at once, and the newest still waits for the one that has begun."""
    app = world.app(watch)
    entered.clear()
    async with world.worker(app):
        old = await app.start(watch("0"), unique="u")
        await world.until_waiting(old, "waiting for signal go")
        between = [await app.start(watch(str(n)), unique="u", if_exists="replace") for n in range(1, 5)]
        new = await app.start(watch("5"), unique="u", if_exists="replace")
        for run in between:
            assert await run.wait(timeout=PATIENCE) is Status.CANCELLED
        assert (await new.view()).waiting == f"begins after the end of run {old.id}"
        await old.signal(cleaned, True)
        await new.signal(go, True)
        assert await new.result(timeout=PATIENCE) == "5"
        assert entered == {"0", "5"}


async def test_a_run_that_has_not_begun_is_replaced_without_a_worker(world: World) -> None:
    """Promise: no worker is needed for it to end, and the new run waits for nobody."""
    app = world.app(watch)
    async with app:
        old = await app.start(watch("a"), unique="u")
        new = await app.start(watch("b"), unique="u", if_exists="replace")
        assert (await old.view()).status is Status.CANCELLED
        assert (await new.view()).waiting == "waiting for a worker"


async def test_a_message_begins_a_waiting_run_no_sooner(world: World) -> None:
    """Promise: a signal is kept for it, and it is there when the run begins."""
    app = world.app(watch)
    async with world.worker(app):
        old = await app.start(watch("a"), unique="u")
        await world.until_waiting(old, "waiting for signal go")
        new = await app.start(watch("b"), unique="u", if_exists="replace")
        await new.signal(go, True)
        await world.until_waiting(old, "waiting for signal cleaned")
        assert (await new.view()).status is Status.PENDING
        await old.signal(cleaned, True)
        assert await new.result(timeout=PATIENCE) == "b"


async def test_concurrent_replacements_leave_one_open_run(world: World) -> None:
    """Promise: of many at once each makes its run, and the one that came last is the only one that is not cancelled."""
    app = world.app(watch)
    async with world.worker(app):
        old = await app.start(watch("old"), unique="u")
        await world.until_waiting(old, "waiting for signal go")
        await old.signal(cleaned, True)
        runs = await asyncio.gather(*(app.start(watch(str(n)), unique="u", if_exists="replace") for n in range(10)))
        assert len({run.id for run in runs}) == 10
        holder = await app.start(watch("?"), unique="u", if_exists="return")
        for run in runs:
            await run.signal(cleaned, True) if not (await run.status()).is_terminal else None
        for run in (run for run in (old, *runs) if run.id != holder.id):
            assert await run.wait(timeout=PATIENCE) is Status.CANCELLED
        await holder.signal(go, True)
        assert await holder.wait(timeout=PATIENCE) is Status.COMPLETED


async def test_a_joined_start_replaces_when_the_caller_commits(tmp_path: Path) -> None:
    """Promise: rolled back, the old run is neither cancelled nor without its value."""
    async with App(f"sqlite:///{tmp_path}/joined.db", workflows=[watch]) as app:
        old = await app.start(watch("a"), unique="u")

        async def roll_back() -> None:
            async with app.connection() as connection:
                await app.start(watch("b"), unique="u", if_exists="replace", connection=connection)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await roll_back()
        assert (await app.start(watch("a"), unique="u")).id == old.id
        async with app.connection() as connection:
            new = await app.start(watch("b"), unique="u", if_exists="replace", connection=connection)
        assert (await app.start(watch("b"), unique="u")).id == new.id


async def test_replacing_needs_a_unique_value(world: World) -> None:
    app = world.app(watch)
    async with app:
        with pytest.raises(InvalidInput, match=r"needs unique="):
            await app.start(watch("a"), id="a", if_exists="replace")
        assert [view async for view in app.runs()] == []


def test_a_clean_up_without_end_is_ended_by_its_grace() -> None:
    """Promise: after `cancel_grace` the old run is ended, and the new one begins; in the simulation and blocking."""
    with Sim() as sim:
        old = sim.start(watch("a"), unique="u")
        new = sim.start(watch("b"), unique="u", if_exists="replace")
        sim.advance("4m")
        assert old.status() is Status.RUNNING
        sim.advance("2m")
        assert old.status() is Status.CANCELLED
        new.signal(go, True)
        assert new.result() == "b"
    with sync.App("memory://", workflows=[watch]) as app:
        first = app.start(watch("a"), unique="u")
        assert app.start(watch("a"), unique="u", if_exists="replace").id != first.id


@step
async def note(text: str) -> None:
    return None


@workflow
async def undone(account: str) -> str:
    await note("begun")
    await sleep("30d")
    return account


def test_a_delayed_successor_keeps_its_delay() -> None:
    """Promise: it begins when the old run has ended and its delay is over, whichever is later."""
    with Sim() as sim:
        old = sim.start(undone("a"), unique="u")
        new = sim.start(undone("b"), unique="u", if_exists="replace", delay="1h")
        assert old.status() is Status.CANCELLED
        sim.advance("59m")
        assert new.status() is Status.PENDING
        sim.advance("2m")
        assert new.status() is Status.RUNNING
