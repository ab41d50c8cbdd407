"""Deleting runs: ended trees go whole, open ones are refused and stay as they are, and the id is free again."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from holdfast import Run, RunNotFound, Signal, start, step, workflow
from holdfast import sync as blocking
from holdfast.errors import Conflict, InvalidId, RunOpen
from tests.support.world import World

go = Signal[str]("go")


@step
async def shout(text: str) -> str:
    return text.upper()


@workflow
async def shouts(text: str) -> str:
    return await shout(text)


@workflow
async def listens() -> str:
    return await go.wait()


@workflow
async def leaves_a_child() -> str:
    start(listens(), id="p/child")
    return await shouts("done")


@blocking.workflow
def adds(number: int) -> int:
    return number + 1


async def test_a_deleted_run_is_gone_and_its_id_is_free(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: after `delete` the run is not found by any handle; the same id with other input is a new run; the log
    says what was deleted, and in whose name."""
    caplog.set_level(logging.INFO, "holdfast")
    async with world.serving(shouts) as app:
        run = await app.start(shouts("a"), id="r")
        assert await run.result("60s") == "A"
        assert await run.delete() == 1
        for verb in (run.status, run.view, run.delete, run.result):
            with pytest.raises(RunNotFound):
                await verb()
        again = await app.start(shouts("b"), id="r")
        assert await again.result("60s") == "B"
    assert [record.__dict__["run"] for record in caplog.records if record.__dict__.get("fact") == "deleted"] == ["r"]


async def test_an_open_run_is_refused(world: World) -> None:
    """Promise: a typed error says what is open and what to do first; nothing changes, and the run goes on."""
    async with world.serving(listens) as app:
        run = await app.start(listens(), id="r")
        with pytest.raises(RunOpen, match="holdfast cancel r") as refused:
            await run.delete()
        assert refused.value.run_id == "r"
        await run.signal(go, "on")
        assert await run.result("60s") == "on"
        assert await run.delete() == 1


async def test_a_tree_is_deleted_as_a_whole(world: World) -> None:
    """Promise: an open descendant keeps the tree, a child is refused by naming its root, then all go together."""
    async with world.serving(leaves_a_child, listens, shouts) as app:
        root: Run[str] = await app.start(leaves_a_child(), id="p")
        assert await root.result("60s") == "DONE"
        child = await app.get("p/child")
        with pytest.raises(RunOpen) as refused:
            await root.delete()
        assert refused.value.run_id == "p/child"
        await child.signal(go, "x")
        await child.wait("60s")
        with pytest.raises(Conflict, match="child in the tree of p"):
            await child.delete()
        assert await root.delete() == 3
        assert [view async for view in app.runs()] == []


async def test_an_id_that_no_run_can_have(world: World) -> None:
    """Promise: refused before the store is asked."""
    async with world.serving(shouts) as app:
        run = await app.start(shouts("a"))
        await run.result("60s")
        run.id = "a\nb"
        with pytest.raises(InvalidId):
            await run.delete()


def test_deleting_blocks_in_sync(tmp_path: Path) -> None:
    """Promise: `holdfast.sync` has the verb, and it returns when the run is gone."""
    with blocking.App(f"sqlite:///{tmp_path / 's.db'}", workflows=[adds]) as app, app.worker():
        run = app.start(adds.call(1), id="r")
        assert run.result("60s") == 2
        assert run.delete() == 1
        with pytest.raises(RunNotFound):
            run.status()
