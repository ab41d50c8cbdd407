"""Versions, missing definitions, divergence, and runs that cannot continue."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import apsw
import msgspec
import pytest

from holdfast import App, Run, Signal, Status, current, patched, step, workflow
from holdfast.adapters.memory.store import MemoryStore
from holdfast.authoring.script.workflows import Workflow
from holdfast.client.client_run import ClientRun
from holdfast.core.specs import Settings
from holdfast.errors import DefinitionError
from tests.support.world import START, World, crash, forget_programs

go = Signal[int]("go")


@step
async def one() -> str:
    return "one"


@step
async def two() -> str:
    return "two"


@pytest.mark.spec(
    "openworkflow.O95",
    "openworkflow.O97",
    "openworkflow.O60",
    "vectorbea.V8",
    "vectorbea.V15",
    "traps.B10",
    "vectorbea.V9",
)
async def test_two_versions_live_side_by_side(world: World) -> None:
    """Promise: runs are pinned to the version they began with; the new one serves new runs; both in one worker. A
    replay tells the code the same run and version."""
    seen: list[tuple[str, str]] = []

    @workflow(name="flow", version="1")
    async def first() -> str:
        seen.append((current().run_id, current().version))
        await go.wait()
        return f"{current().version}: {await one()}"

    @workflow(name="flow", version="2")
    async def second() -> str:
        await go.wait()
        return f"{current().version}: {await two()}"

    old = world.app(first)
    async with world.worker(old):
        before = await old.start(first())
        await world.until_parked(before)
    new = world.app(first, second)
    async with world.worker(new):
        after = await new.start(second())
        for run in (before, after):
            await run.signal(go, 1)
        assert await before.result("60s") == "1: one"
        assert await after.result("60s") == "2: two"
    assert len(seen) > 1, "the second worker replayed it"
    assert set(seen) == {(before.id, "1")}
    assert (await world.row(before)).version == "1"
    assert [view.id async for view in new.runs(workflow="flow", version="2")] == [after.id]


@pytest.mark.spec("openworkflow.O97")
async def test_two_definitions_of_one_name_and_version_are_refused() -> None:
    """Promise: the error names both files; the same object twice is fine; versioned never stands for unversioned."""

    @workflow(name="flow")
    async def first() -> None: ...

    @workflow(name="flow")
    async def second() -> None: ...

    @workflow(name="flow", version="2")
    async def third() -> None: ...

    App("memory://", workflows=[first, first, third])
    with pytest.raises(DefinitionError, match=r"two workflows are called flow.*test_versions"):
        App("memory://", workflows=[first, second])


@pytest.mark.spec("openworkflow.O34", "openworkflow.O97", "traps.B6", "traps.B10", "stepflow.R9")
async def test_a_missing_definition_is_put_off_and_never_failed(still: World) -> None:
    """Promise: 5 s doubling to 5 min, without limit, with a note; then a worker that has it serves the run at once."""

    @workflow(version="2")
    async def new(number: int) -> int:
        return number

    @workflow(name="new")
    async def unversioned(number: int) -> int:
        raise AssertionError

    elsewhere = still.app(unversioned)
    run = await still.app(new).start(new(5))
    waits: list[float] = []
    async with still.worker(elsewhere):
        for _ in range(9):

            async def put_off() -> bool:
                available = (await still.row(run)).available_at
                return available is not None and available > still.clock.now()

            await still.until(put_off)
            row = await still.row(run)
            assert row.available_at is not None
            assert row.status is Status.PENDING
            assert "new" in row.note
            waits.append((row.available_at - still.clock.now()).total_seconds())
            await still.advance(row.available_at - still.clock.now())
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300, 300]
    still.clock.advance(timedelta(minutes=5))
    async with still.worker(still.app(new)):
        assert await run.result("60s") == 5
    assert (await still.row(run)).note == ""


@pytest.mark.spec("openworkflow.O34")
async def test_a_run_that_began_waits_for_its_definition_too(still: World) -> None:
    """Promise: likewise for a run that is woken by a signal while only the wrong worker is there."""

    @workflow
    async def waits() -> int:
        return await go.wait()

    @workflow
    async def foreign() -> None: ...

    right, wrong = still.app(waits), still.app(foreign)
    async with still.worker(right):
        run = await right.start(waits())
        await still.until_parked(run)
    async with still.worker(wrong):
        await run.signal(go, 4)

        async def put_off() -> bool:
            return (await still.row(run)).available_at == START + timedelta(seconds=5)

        await still.until(put_off)
        assert await run.status() is Status.RUNNING
    still.clock.advance(5)
    async with still.worker(right):
        assert await run.result("60s") == 4


@pytest.mark.spec("openworkflow.O96", "vectorbea.V8")
async def test_a_renamed_step_pauses_the_run_and_runs_nothing(world: World) -> None:
    """Promise: paused as diverged, both sides and the line named, nothing executed; mended code and a resume go on."""
    ran: list[str] = []

    @step
    async def charge() -> str:
        ran.append("charge")
        return "paid"

    @step
    async def renamed() -> str:
        ran.append("renamed")
        return "paid"

    def version_of(name: str) -> Workflow[[], str]:
        @workflow(name="flow")
        async def flow() -> str:
            paid = await (charge() if name == "charge" else renamed())
            await go.wait()
            return paid

        return flow

    good = version_of("charge")
    app = world.app(good)
    async with world.worker(app):
        run = await app.start(good())
        await world.until_waiting(run, "signal")
        await world.until_parked(run)
    turns = (await run.view()).turns
    async with world.worker(world.app(version_of("renamed"))):
        await run.signal(go, 1)
        await world.until_status(run, "paused")
    text = (await run.view()).waiting
    assert "paused (diverged)" in text
    assert "'charge'" in text
    assert "'renamed'" in text
    assert "test_versions.py" in text
    assert "patched" in text
    assert ran == ["charge"]
    assert (await run.view()).turns == turns + 1
    async with world.worker(world.app(version_of("charge"))):
        await run.resume()
        assert await run.result("60s") == "paid"
    assert ran == ["charge"]


async def test_patched_gates_a_change(world: World) -> None:
    """Promise: runs from before take the old path, new ones the new path, on every replay."""

    def version_of(is_new: bool) -> Workflow[[], str]:
        @workflow(name="flow")
        async def flow() -> str:
            await go.wait()
            found = await two() if is_new and patched("use two") else await one()
            await go.wait(name="last")
            return found

        return flow

    old, new = version_of(False), version_of(True)
    app = world.app(old)
    async with world.worker(app):
        before = await app.start(old())
        await before.signal(go, 1)
        await world.until(lambda: _met(before, "last"))
        await world.until_parked(before)
        fresh = await app.start(old())
        await world.until_parked(fresh)
    app = world.app(new)
    async with world.worker(app) as worker:
        after = await app.start(new())
        for run in (fresh, after):
            await run.signal(go, 1)
            await world.until(lambda run=run: _met(run, "last"))  # type: ignore[misc]
            await world.until_parked(run)
        forget_programs(worker)
        for run in (before, fresh, after):
            await run.signal(go, 2)
        assert await before.result("60s") == "one"
        assert await fresh.result("60s") == "two", "it met the change live, so it takes the new path"
        assert await after.result("60s") == "two"


async def _met(run: Run[str], key: str) -> bool:
    assert isinstance(run, ClientRun)
    return any(getattr(x, "key", "") == key for turn in await run.history() for x in turn.events)


async def test_a_program_that_never_waits_is_paused(world: World) -> None:
    """Promise: a body that keeps its loop busy is stopped and paused; others go on."""

    @workflow
    async def busy() -> None:
        while True:  # noqa: ASYNC110 that is the point
            await asyncio.sleep(0)

    @workflow
    async def fine() -> int:
        return 1

    app = world.app(busy, fine)
    app.settings = Settings(activation_budget=1000)
    async with world.worker(app):
        run = await app.start(busy())
        await world.until_status(run, "paused")
        assert "paused (never waits)" in (await run.view()).waiting
        assert await (await app.start(fine())).result("60s") == 1
        await run.kill()


@pytest.mark.spec("traps.A8")
async def test_a_run_that_kills_its_workers_is_quarantined(still: World) -> None:
    """Promise: after four deaths, two of them while it ran alone and was known to be a suspect, it is paused, nothing
    of it runs; resumed, it may go on."""
    entered: list[int] = []
    is_poison = True

    @step
    async def poison() -> int:
        entered.append(current().attempt)
        if is_poison:
            await asyncio.Event().wait()
        return 1

    @workflow
    async def work() -> int:
        return await poison()

    @workflow
    async def fine() -> int:
        return 1

    app = still.app(work, fine)
    limit = 4
    run = await app.start(work())
    for count in range(1, limit + 1):
        async with still.worker(app, ttl="15s") as worker:
            await still.beat(worker)
            await still.until(lambda: len(entered) == count)  # noqa: B023 awaited in this turn of the loop
            await crash(worker)
        still.clock.advance(16)
    async with still.worker(app) as worker:
        await still.beat(worker)
        await still.until_status(run, "paused")
        assert "paused (quarantined): its worker died twice while it ran alone" in (await run.view()).waiting
        assert await (await app.start(fine())).result("60s") == 1
        assert len(entered) == limit
        is_poison = False
        await run.resume()
        assert await run.result("60s") == 1


async def test_a_corrupted_journal_pauses_the_run(world: World) -> None:
    """Promise: a flipped byte is found by the chained checksum: paused as undecodable, nothing executed."""
    ran: list[int] = []

    @step
    async def note() -> None:
        ran.append(1)

    @workflow
    async def work() -> None:
        await note()
        await go.wait()
        await note()

    app = world.app(work)
    async with world.worker(app):
        run = await app.start(work())
        await world.until_waiting(run, "signal")
        await world.until_parked(run)
    await _corrupt(world, run.id)
    async with world.worker(app):
        await run.signal(go, 1)
        await world.until_status(run, "paused")
        assert "paused (undecodable)" in (await run.view()).waiting
        await run.kill()
    assert ran == [1]


async def test_input_that_no_longer_fits_pauses_the_run(world: World) -> None:
    """Promise: stored arguments that the new code cannot read pause the run as undecodable; nothing is lost."""

    @workflow(name="flow")
    async def old(number: int) -> int:
        return number

    @workflow(name="flow")
    async def new(number: list[str]) -> int:
        return len(number)

    run = await world.app(old).start(old(5))
    async with world.worker(world.app(new)):
        await world.until_status(run, "paused")
        assert "paused (undecodable)" in (await run.view()).waiting
    async with world.worker(world.app(old)):
        await run.resume()
        assert await run.result("60s") == 5


async def _corrupt(world: World, run: str) -> None:
    """Changes one word in the second row of a journal, behind the store's back."""
    if isinstance(world.store, MemoryStore):
        row = await world.store.get(run)
        assert row is not None
        rows = world.store._tables.rows[row.no]  # a test may look inside: nothing public changes a row
        rows[1] = msgspec.structs.replace(rows[1], body=rows[1].body.replace(b"note", b"mote"))
        return
    connection = apsw.Connection(str(world.path))
    connection.execute(
        "update events set body = cast(replace(cast(body as text), 'note', 'mote') as blob) "
        "where ordinal = 2 and run = (select no from runs where id = ?)",
        (run,),
    )
    connection.close()
