"""Values and attributes of runs: watched from outside, and searched by."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import patch

import pytest

from holdfast import RunNotFound, RunVar, Signal, current, set_attributes, start, step, sync, workflow
from holdfast.errors import InvalidInput, NotAllowedHere, StepFailed
from tests.support.world import World

stage = RunVar[str]("stage")
go = Signal[str]("go")


@workflow
async def shows() -> str:
    stage.set("begun")
    while (word := await go.wait()) != "end":
        stage.set(word)
    stage.set("last")
    return "over"


@step
async def looks() -> dict[str, str]:
    return dict(current().attributes)


@workflow
async def child() -> dict[str, str]:
    return dict(current().attributes)


@workflow
async def sets() -> list[dict[str, str]]:
    set_attributes(approver="bob", tier="gold")
    seen = await looks()
    set_attributes({"tenant-id": "7"}, tier=None)
    await go.wait()
    own = await start(child()).result()
    inherited = await start(child(), name="heir", inherit_attributes=True).result()
    return [seen, dict(current().attributes), own, inherited]


@step
async def tries() -> None:
    set_attributes(a="1")


@workflow
async def misuses() -> str:
    try:
        await tries()
    except StepFailed as error:
        return error.message
    return ""


@workflow
def blocks() -> dict[str, str]:
    sync.set_attributes(colour="red")
    return dict(sync.current().attributes)


async def test_a_watcher_sees_the_value_now_and_the_newest(world: World) -> None:
    """Promise: the value at once, then the newest after each change, until the run ends."""
    async with world.serving(shows) as app:
        run = await app.start(shows())
        seen: list[str] = []

        async def watch() -> None:
            async for value in run.watch(stage):
                seen.append(value)
                if value != "last":
                    await run.signal(go, "end" if value == "two" else "two")

        await asyncio.wait_for(watch(), 30)
        assert [seen[0], seen[-1]] == ["begun", "last"]
        assert "two" in seen
        assert [value async for value in run.watch(stage)] == ["last"]


async def test_watchers_share_one_look(world: World) -> None:
    """Promise: however many watch one value, it is read once for each change."""
    async with world.serving(shows) as app:
        run = await app.start(shows())
        store = (await app.client()).store
        reads = 0
        read = store.exposed

        async def counted(run: str, name: str) -> tuple[bytes, str] | None:
            nonlocal reads
            reads += 1
            return await read(run, name)

        async def watch() -> list[str]:
            return [value async for value in run.watch(stage)]

        with patch.object(store, "exposed", counted):
            watching = [asyncio.create_task(watch()) for _ in range(50)]
            await world.until(lambda: reads > 0, "looked at")
            await run.signal(go, "end")
            found = await asyncio.gather(*watching)
        assert all(values[-1] == "last" for values in found)
        assert reads < 25


async def test_watching_a_run_that_is_gone(world: World) -> None:
    """Promise: a run that was deleted is not watched."""
    app = world.app(shows)
    async with app:
        run = await app.start(shows())
        await run.kill()
        await run.delete()
        with pytest.raises(RunNotFound):
            async for _ in run.watch(stage):
                pass


async def test_a_run_is_found_by_what_it_set(world: World) -> None:
    """Promise: set and removed with the turn, searched at once, seen by steps, inherited on request."""
    async with world.serving(sets, child) as app:
        run = await app.start(sets(), attributes={"tier": "silver", "shop": "7"})
        await world.until_waiting(run, "signal go")
        expected = {"approver": "bob", "shop": "7", "tenant-id": "7"}
        assert (await run.view()).attributes == expected
        found = [view.id async for view in app.runs(attributes={"approver": "bob", "tenant-id": "7"})]
        assert found == [run.id]
        assert [view.id async for view in app.runs(attributes={"tier": "silver"})] == []
        await run.signal(go, "on")
        seen, own, bare, inherited = await run.result()
        assert seen == {"tier": "gold", "shop": "7", "approver": "bob"}
        assert own == inherited == expected
        assert bare == {}


async def test_attributes_in_the_wrong_place(world: World) -> None:
    """Promise: a step is told to return the value; a sync workflow has the verb too."""
    async with world.serving(misuses, blocks) as app:
        assert "set it in the workflow" in await (await app.start(misuses())).result()
        assert await (await app.start(blocks.call())).result() == {"colour": "red"}


@workflow
async def gives(name: str, value: Any) -> str:
    try:
        set_attributes({name: value})
    except (InvalidInput, NotAllowedHere) as error:
        return type(error).__name__
    return "set"


@pytest.mark.parametrize(("name", "value"), [("", "x"), ("a", 7), ("a", "x" * 2000), ("a\nb", "x")])
async def test_bad_attributes_are_refused(world: World, name: str, value: object) -> None:
    """Promise: names and texts that cannot be stored are refused where they are set, and nothing is written."""
    async with world.serving(gives) as app:
        run = await app.start(gives(name, value))
        assert (await run.result()).startswith("Invalid")
        assert (await run.view()).attributes == {}
