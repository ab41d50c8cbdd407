"""What the end of a parent means for its children: the table of the guide on children."""

from __future__ import annotations

import pytest

from holdfast import App, Retry, RunCancelled, Signal, Status, continue_as, start, workflow
from tests.support.world import World, events

go = Signal[int]("go")
end = Signal[str]("end")


@workflow
async def waits() -> int:
    return await go.wait()


@workflow
async def parent(how: str = "") -> str:
    start(waits(), id="left")
    start(waits(), id="taken", on_cancel="cancel")
    if not how:
        how = await end.wait()
    if how == "fail":
        raise ValueError("no more")
    return how


async def _settled(world: World, *ids: str) -> None:
    for name in ids:
        await world.until(lambda name=name: world.store.get(name))  # type: ignore[misc]
        await world.until_parked(name)


async def _cancels(app: App, run: str) -> list[str]:
    return [event.data["reason"] for event in await events(await app.get(run)) if event.type == "cancel"]


@pytest.mark.parametrize("how", ["fail", "kill", "deadline"])
async def test_an_end_without_success_reaches_the_children_that_are_taken_along(still: World, how: str) -> None:
    """Promise: failure, kill and deadline cancel the children of `on_cancel="cancel"`, once, and leave the others."""
    async with still.serving(parent, waits) as app:
        run = await app.start(parent(), id="p", deadline="1h")
        await _settled(still, "left", "taken", "p")
        if how == "fail":
            await run.signal(end, "fail")
        elif how == "kill":
            await run.kill("stop")
        else:
            await still.advance("1h")
        assert await run.wait("60s") is (Status.CANCELLED if how == "kill" else Status.FAILED)
        await still.until_status("taken", "cancelled")
        cause = {"fail": "failed", "kill": "was killed", "deadline": "passed its deadline"}[how]
        assert await _cancels(app, "taken") == [f"its parent p {cause}"]
        assert (await still.row("left")).status is Status.RUNNING


async def test_a_child_is_cancelled_that_its_parent_starts_in_the_turn_in_which_it_fails(still: World) -> None:
    """Promise: being started and being cancelled may be one commit."""
    async with still.serving(parent, waits) as app:
        assert await (await app.start(parent("fail"), id="p")).wait("60s") is Status.FAILED
        await still.until_status("taken", "cancelled")
        await _settled(still, "left")


async def test_a_parent_that_completes_leaves_its_children(still: World) -> None:
    """Promise: also those that its cancel would have reached."""
    async with still.serving(parent, waits) as app:
        assert await (await app.start(parent("done"), id="p")).result("60s") == "done"
        await _settled(still, "left", "taken")
        await (await app.get("taken", waits)).signal(go, 3)
        assert await (await app.get("taken", waits)).result("60s") == 3


async def test_a_deadline_cancels_children_before_the_clean_up_ends(still: World) -> None:
    """Promise: the clean-up of an overdue run may wait for a child that is taken along, and is told how it ended."""

    @workflow
    async def patient() -> None:
        child = start(waits(), id="taken", on_cancel="cancel")
        try:
            await end.wait()
        finally:
            try:
                await child.result()
            except RunCancelled:
                told.append("cancelled")

    told: list[str] = []
    async with still.serving(patient, waits) as app:
        run = await app.start(patient(), id="p", deadline="1h")
        await _settled(still, "taken", "p")
        await still.advance("1h")
        assert await run.wait("60s") is Status.FAILED
        assert told == ["cancelled"]
        assert await _cancels(app, "taken") == ["its parent p passed its deadline"]


async def test_a_failure_reaches_children_from_before_the_run_began_anew(still: World) -> None:
    """Promise: `on_cancel="cancel"` holds for the run, not for one of its lives."""

    @workflow
    async def anew(left: int) -> None:
        if left:
            start(waits(), id="taken", on_cancel="cancel")
            continue_as(anew(left - 1))
        await end.wait()
        raise ValueError("no more")

    async with still.serving(anew, waits, snapshot_every=1) as app:
        run = await app.start(anew(1), id="p")
        await _settled(still, "taken", "p")
        await run.signal(end, "now")
        assert await run.wait("60s") is Status.FAILED
        await still.until_status("taken", "cancelled")


async def test_a_pass_that_fails_leaves_children_to_the_next(still: World) -> None:
    """Promise: a workflow-level retry is not an end; the next pass finds its child."""

    @workflow(retry=Retry(2, first="1m"))
    async def again() -> int:
        child = start(waits(), id="taken", on_cancel="cancel")
        if not tries:
            tries.append(1)
            raise ValueError("once")
        return await child.result()

    tries: list[int] = []
    async with still.serving(again, waits) as app:
        run = await app.start(again(), id="p")
        await _settled(still, "taken")
        await still.until(lambda: tries)
        await still.until_parked("p")
        await still.advance("1m")
        await (await app.get("taken", waits)).signal(go, 7)
        assert await run.result("60s") == 7
        assert await _cancels(app, "taken") == []
