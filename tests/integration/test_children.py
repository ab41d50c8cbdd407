"""Children: awaited, started, adopted, timed out, cancelled."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from holdfast import (
    ResultTimeout,
    RunCancelled,
    RunFailed,
    Signal,
    Status,
    continue_as,
    current,
    each,
    remote,
    sleep,
    start,
    step,
    workflow,
)
from tests.support.world import START, World, crash, events, forget_programs

go = Signal[int]("go")


class Refused(Exception):
    """A declared end of a child."""


@workflow
async def child(number: int = 0) -> int:
    return number * 2


@workflow
async def waits() -> int:
    return await go.wait()


@workflow
async def parent(number: int) -> int:
    return await child(number) + 1


@pytest.mark.spec("openworkflow.O48")
async def test_an_awaited_call_is_a_child_run(world: World) -> None:
    """Promise: the child is a run of its own with a readable id, its parent and root on its row."""
    async with world.serving(parent, child) as app:
        run = await app.start(parent(20), id="p")
        assert await run.result("60s") == 41
        row = await world.row("p/child")
        assert (row.parent, row.root, row.status) == ("p", "p", Status.COMPLETED)
        assert [view.id async for view in app.runs(parent="p")] == ["p/child"]


@pytest.mark.spec("openworkflow.O51", "traps.B2")
async def test_a_parked_parent_is_woken_by_its_child(still: World) -> None:
    """Promise: the parent parks for long children; the child's end wakes it at once."""

    @workflow
    async def over() -> int:
        return await waits() + 1

    app = still.app(over, waits)
    async with still.worker(app) as worker:
        run = await app.start(over(), id="p")
        await still.until_waiting(run, "waiting for child waits (p/waits)")
        await still.advance("1s")
        row = await still.until_parked(run)
        assert row.available_at == START + timedelta(days=365)
        forget_programs(worker)
        await (await app.get("p/waits")).signal(go, 5)
        assert await run.result("60s") == 6


@pytest.mark.spec("openworkflow.O51", "traps.B2", "vectorbea.V4")
async def test_a_child_that_ends_before_the_parent_parks(world: World) -> None:
    """Promise: no wake-up is lost when the child ends while its parent is still busy, on another worker."""
    entered, leave = asyncio.Event(), asyncio.Event()

    @step
    async def busy() -> None:
        entered.set()
        await leave.wait()

    @workflow
    async def over() -> int:
        run = start(child(4))
        await busy()
        return await run.result()

    parents, children = world.app(over), world.app(child)
    async with world.worker(parents), world.worker(children):
        run = await parents.start(over(), id="p")
        await world.until_set(entered)
        await world.until_status("p/child", "completed")
        leave.set()
        assert await run.result("60s") == 8


@pytest.mark.spec("openworkflow.O50", "traps.A9", "stepflow.R13", "stepflow.R14")
async def test_a_replay_never_starts_a_second_child(still: World) -> None:
    """Promise: the child's id follows from parent and key, so a crash after its start adopts it."""
    ran: list[str] = []

    @step
    async def note() -> None:
        ran.append(current().run_id)

    @workflow
    async def noted() -> int:
        await note()
        return await go.wait()

    @workflow
    async def over() -> int:
        return await noted()

    app = still.app(over, noted)
    async with still.worker(app, ttl="15s") as worker:
        run = await app.start(over(), id="p")
        await still.until(lambda: ran)
        await crash(worker)
    still.clock.advance(16)
    async with still.worker(app) as worker:
        await still.beat(worker)
        await (await app.get("p/noted")).signal(go, 3)
        assert await run.result("60s") == 3
    assert ran.count("p/noted") == len(ran)
    assert len([view async for view in app.runs(workflow="noted")]) == 1


@pytest.mark.spec("openworkflow.O48", "openworkflow.O53")
async def test_a_timeout_fails_the_wait_and_not_the_child(still: World) -> None:
    """Promise: `start(…, timeout=)` raises `ResultTimeout` in the parent; the child goes on to its own end."""

    @workflow
    async def over() -> str:
        run = start(waits(), timeout="1h", id="kid")
        try:
            await run.result()
        except ResultTimeout:
            return "late"
        return "in time"

    app = still.app(over, waits)
    async with still.worker(app) as worker:
        run = await app.start(over())
        await still.until_waiting(run, "waiting for child")
        await still.advance("1s")
        await still.until_parked(run)
        forget_programs(worker)
        await still.advance("1h")
        assert await run.result("60s") == "late"
        kid = await app.get("kid", waits)
        assert await kid.status() is Status.RUNNING
        await kid.signal(go, 9)
        assert await kid.result("60s") == 9


@pytest.mark.spec("openworkflow.O53", "traps.B9")
async def test_a_child_that_ended_in_time_counts_although_seen_late(still: World) -> None:
    """Promise: what decides is when the child ended, not when its parent looked."""

    @workflow
    async def over() -> int:
        return await start(waits(), timeout="1h", id="kid").result()

    parents, children = still.app(over, waits), still.app(waits)
    async with still.worker(parents):
        run = await parents.start(over())
        await still.until_waiting(run, "waiting for child")
    async with still.worker(children):
        kid = await children.get("kid", waits)
        await kid.signal(go, 4)
        await kid.result("60s")
    still.clock.advance(timedelta(hours=2))
    async with still.worker(parents):
        assert await run.result("60s") == 4


@pytest.mark.spec("openworkflow.O48")
async def test_the_default_timeout_is_a_year(still: World) -> None:
    """Promise: an awaited child is waited for one year; then the wait fails, the child does not."""

    @workflow
    async def over() -> int:
        return await waits()

    app = still.app(over, waits)
    async with still.worker(app):
        run = await app.start(over(), id="p")
        await still.until_waiting(run, "waiting for child")
        await still.advance("1s")
        assert (await still.until_parked(run)).available_at == START + timedelta(days=365)
        await still.advance("365d")
        with pytest.raises(RunFailed) as failed:
            await run.result("60s")
        assert failed.value.type == "ResultTimeout"
        assert await (await app.get("p/waits")).status() is Status.RUNNING


@pytest.mark.spec("openworkflow.O52")
async def test_a_failed_child_fails_its_wait_once(world: World) -> None:
    """Promise: the parent sees `RunFailed` with the child's error, or the declared one; it is not tried again."""
    ran: list[int] = []

    @workflow(raises=Refused)
    async def refuses() -> None:
        ran.append(1)
        raise Refused("no stock")

    @workflow
    async def breaks() -> None:
        ran.append(2)
        raise ValueError("broken")

    @workflow
    async def over() -> list[str]:
        found: list[str] = []
        try:
            await refuses()
        except Refused as refused:
            found.append(str(refused))
        try:
            await breaks()
        except RunFailed as failed:
            found.append(f"{failed.run_id}: {failed.type}: {failed.message}")
        await go.wait()
        return found

    app = world.app(over, refuses, breaks)
    async with world.worker(app) as worker:
        run = await app.start(over(), id="p")
        await world.until_waiting(run, "signal go")
        await world.until_parked(run)
        forget_programs(worker)
        await run.signal(go, 1)
        assert await run.result("60s") == ["no stock", "p/breaks: ValueError: broken"]
    assert ran == [1, 2]


@pytest.mark.spec("openworkflow.O52")
async def test_a_cancelled_child_is_told_to_its_parent(world: World) -> None:
    """Promise: the parent sees `RunCancelled` with the child's id and the reason."""

    @workflow
    async def over() -> str:
        try:
            await waits()
        except RunCancelled as cancelled:
            return f"{cancelled.run_id}: {cancelled.reason}"
        return ""

    async with world.serving(over, waits) as app:
        run = await app.start(over(), id="p")
        await world.until_waiting(run, "child")
        kid = await app.get("p/waits", waits)
        await world.until_parked(kid)
        await kid.cancel("not needed")
        assert await run.result("60s") == "p/waits: not needed"


@pytest.mark.spec("openworkflow.O54", "traps.B8")
async def test_cancelling_a_parent_leaves_its_children(world: World) -> None:
    """Promise: children go on, unless started with `on_cancel="cancel"`."""

    @workflow
    async def over() -> None:
        start(waits(), id="left")
        start(waits(), id="taken", on_cancel="cancel")
        await waits()

    async with world.serving(over, waits) as app:
        run = await app.start(over(), id="p")
        for name in ("left", "taken", "p/waits:2"):
            await world.until(lambda name=name: world.store.get(name))  # type: ignore[misc]
            await world.until_parked(name)
        await run.cancel("stop")
        assert await run.wait("60s") is Status.CANCELLED
        await world.until_status("taken", "cancelled")
        assert (await world.row("left")).status is Status.RUNNING
        assert (await world.row("p/waits:2")).status is Status.RUNNING


async def test_a_cancel_reaches_a_child_that_was_started_before_the_run_began_anew(world: World) -> None:
    """Promise: `on_cancel="cancel"` holds for the run, not for one of its lives; snapshots do not forget it."""

    @workflow
    async def over(left: int) -> None:
        if left:
            start(waits(), id="taken", on_cancel="cancel")
            continue_as(over(left - 1))
        await go.wait()

    async with world.serving(over, waits, snapshot_every=1) as app:
        run = await app.start(over(1), id="p")
        await world.until_waiting(run, "signal")
        await world.until_parked(run)
        await world.until_parked("taken")
        await run.cancel("stop")
        assert await run.wait("60s") is Status.CANCELLED
        await world.until_status("taken", "cancelled")


async def test_a_child_nobody_waits_for(world: World) -> None:
    """Promise: `start` goes on at once; the child outlives its parent."""

    @workflow
    async def over() -> str:
        run = start(waits(), id="kid")
        await run.signal(go, 12)
        return run.id

    async with world.serving(over, waits) as app:
        assert await (await app.start(over())).result("60s") == "kid"
        assert await (await app.get("kid", waits)).result("60s") == 12


@pytest.mark.spec("stepflow.R13", "stepflow.R14")
async def test_an_id_in_use_by_the_same_workflow_is_adopted(world: World) -> None:
    """Promise: `start(call, id=)` of a run that is there waits for that one, ended or not."""

    @workflow
    async def over(id: str) -> int:
        return await start(waits(), id=id).result()

    async with world.serving(over, waits) as app:
        ended = await app.start(waits(), id="ended")
        await ended.signal(go, 1)
        await ended.result("60s")
        assert await (await app.start(over("ended"))).result("60s") == 1
        running = await app.start(waits(), id="running")
        first, second = await app.start(over("running")), await app.start(over("running"))
        for run in (first, second):
            await world.until_parked(run)
        await running.signal(go, 2)
        assert [await first.result("60s"), await second.result("60s")] == [2, 2]


async def test_an_adopted_run_that_is_cancelled_tells_why(world: World) -> None:
    """Promise: an adopting parent hears the same as the own parent would: cancelled, and the reason."""

    @workflow
    async def over() -> str:
        try:
            await start(waits(), id="kid").result()
        except RunCancelled as cancelled:
            return cancelled.reason
        return ""

    async with world.serving(over, waits) as app:
        kid = await app.start(waits(), id="kid")
        await world.until_parked(kid)
        run = await app.start(over())
        await world.until_parked(run)
        await kid.cancel("enough")
        assert await run.result("60s") == "enough"


async def test_an_id_in_use_by_another_workflow_is_a_conflict(world: World) -> None:
    """Promise: the parent sees a failed child with a `Conflict`; the other run is not touched."""

    @workflow
    async def over() -> str:
        try:
            await start(child(1), id="taken").result()
        except RunFailed as failed:
            return failed.type
        return ""

    async with world.serving(over, child, waits) as app:
        await app.start(waits(), id="taken")
        assert "Conflict" in await (await app.start(over())).result("60s")
        assert (await world.row("taken")).workflow == "waits"


@remote
async def elsewhere(number: int) -> int:
    raise NotImplementedError


async def test_a_remote_workflow_is_a_typed_declaration(world: World) -> None:
    """Promise: a process without the code starts it, as run and as child; who has the code serves it."""

    @workflow(name="elsewhere")
    async def real(number: int) -> int:
        return number + 1

    @workflow
    async def over() -> int:
        return await elsewhere(1)

    here, there = world.app(over, elsewhere), world.app(real)
    async with world.worker(here), world.worker(there):
        assert await (await here.start(elsewhere(5))).result("60s") == 6
        assert await (await here.start(over())).result("60s") == 2


@pytest.mark.spec("openworkflow.O57", "openworkflow.O42")
async def test_many_children_at_once(world: World) -> None:
    """Promise: `gather` and `each` of children; each has its own key; results in order."""

    @workflow
    async def over() -> list[int]:
        first = await asyncio.gather(*(child(number) for number in range(5)))
        return [*first, *await each(child, range(5, 20), limit=4)]

    async with world.serving(over, child) as app:
        run = await app.start(over(), id="p")
        assert await run.result("60s") == [number * 2 for number in range(20)]
        found = {view.id async for view in app.runs(parent="p")}
        assert found == {"p/child", *(f"p/child:{n}" for n in range(1, 20))}


async def test_a_child_on_another_queue(world: World) -> None:
    """Promise: `start(queue=)` sends a child to the workers of that queue; without it, it inherits its parent's."""

    @workflow
    async def over() -> int:
        return await start(child(3), queue="slow", id="kid").result()

    here, there = world.app(over), world.app(child)
    async with world.worker(here), world.worker(there, queues=["slow"]):
        assert await (await here.start(over())).result("60s") == 6
    assert (await world.row("kid")).queue == "slow"


@pytest.mark.spec("stepflow.M19")
async def test_grandchildren_share_the_root(world: World) -> None:
    """Promise: the root of a tree is on every row of it, and `follow` of the root shows only the root."""

    @workflow
    async def top() -> int:
        return await parent(1)

    async with world.serving(top, parent, child) as app:
        run = await app.start(top(), id="t")
        assert await run.result("60s") == 3
    assert (await world.row("t/parent/child")).root == "t"
    assert (await world.row("t/parent/child")).parent == "t/parent"
    assert [x.type for x in await events(run)][-1] == "completed"
    assert "sleep" not in [x.type for x in await events(run)]


async def test_a_parent_that_sleeps_hears_of_its_child_later(still: World) -> None:
    """Promise: a child's end that comes while the parent waits for something else is kept for the wait."""

    @workflow
    async def over() -> int:
        run = start(child(4))
        await sleep("1h")
        return await run.result()

    app = still.app(over, child)
    async with still.worker(app) as worker:
        run = await app.start(over(), id="p")
        await still.until_status("p/child", "completed")
        await still.until_parked(run)
        forget_programs(worker)
        await still.advance("1h")
        assert await run.result("60s") == 8


@pytest.mark.spec("vectorbea.V6")
async def test_a_run_that_waits_for_a_started_child_says_so(world: World) -> None:
    """Promise: also a child that was started first and awaited later is named as what the run waits for."""

    @workflow
    async def over() -> int:
        run = start(waits(), id="kid")
        return await run.result()

    async with world.serving(over, waits) as app:
        run = await app.start(over())
        await world.until_waiting(run, "waiting for child waits (kid)")
        await (await app.get("kid")).signal(go, 1)
        assert await run.result("60s") == 1
