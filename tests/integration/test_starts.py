"""Starting what is there already, or what cannot be started: the same answer from every door."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import App, Conflict, Signal, Topic, step, sync, workflow
from holdfast.errors import InvalidInput, NotAllowedHere
from holdfast.testing import Sim
from tests.support.world import World

approved = Signal[bool]("approved")
news = Topic[int]("news")


@step
async def greet(name: str) -> str:
    return f"hello {name}"


@workflow
async def hello(name: str) -> str:
    return await greet(name)


@workflow
async def parent(name: str) -> str:
    return await hello(name)


async def test_the_same_id_is_one_request(world: World) -> None:
    """Promise: same id and input: the same run. Different input: `Conflict`, unless the caller asks for the run."""
    app = world.app(hello)
    async with app:
        every: list[dict[str, Any]] = [{"id": "a"}, {"id": "b", "key": "k"}]
        for options in every:
            run = await app.start(hello("x"), **options)
            assert (await app.start(hello("x"), **options)).id == run.id
            with pytest.raises(Conflict, match=r"different input.*if_exists"):
                await app.start(hello("y"), **options)
            assert (await app.start(hello("y"), if_exists="return", **options)).id == run.id
            for name in ("x", "y"):
                with pytest.raises(Conflict, match="reject"):
                    await app.start(hello(name), if_exists="reject", **options)
        with pytest.raises(Conflict, match="of workflow 'hello'"):
            await app.start(parent("x"), id="a", if_exists="return")
        wrong: Any = "merge"
        with pytest.raises(InvalidInput, match="'return'"):
            await app.start(hello("x"), if_exists=wrong)
        assert len([view async for view in app.runs()]) == 2


async def test_a_joined_start_keeps_the_rule(tmp_path: Path) -> None:
    """Promise: also in the caller's transaction."""
    async with App(f"sqlite:///{tmp_path}/joined.db", workflows=[hello]) as app:
        await app.start(hello("x"), id="a")
        async with app.connection() as connection:
            assert (await app.start(hello("x"), id="a", connection=connection)).id == "a"
            with pytest.raises(Conflict, match="different input"):
                await app.start(hello("y"), id="a", connection=connection)


async def test_a_batch_is_one_request(world: World) -> None:
    """Promise: the same inputs are the same batch, whatever the concurrency; `if_exists` is as for a run."""
    app = world.app(hello)
    async with app:
        batch = await app.start_batch(hello, ["x", "y"], id="b")
        assert (await app.start_batch(hello, ["x", "y"], id="b", concurrency=3)).id == batch.id
        with pytest.raises(Conflict, match="different inputs"):
            await app.start_batch(hello, ["x"], id="b")
        assert (await app.start_batch(hello, ["x"], id="b", if_exists="return")).plan.total == 2
        with pytest.raises(Conflict, match="reject"):
            await app.start_batch(hello, ["x", "y"], id="b", if_exists="reject")


def test_the_blocking_app_and_the_simulation_keep_the_rule() -> None:
    with sync.App("memory://", workflows=[hello]) as app:
        app.start(hello("x"), id="a")
        with pytest.raises(Conflict, match="different input"):
            app.start(hello("y"), id="a")
        assert app.start(hello("y"), id="a", if_exists="return").id == "a"
    with Sim() as sim:
        sim.start(hello("x"), id="a")
        with pytest.raises(Conflict, match="different input"):
            sim.start(hello("y"), id="a")


def _sync_start(call: Any) -> None:
    sync.App("memory://").start(call)


def _sim_start(call: Any) -> None:
    with Sim() as sim:
        sim.start(call)


DOORS: dict[str, Callable[[Any], object]] = {
    "app.start": lambda call: asyncio.run(App("memory://").start(call)),
    "app.run": lambda call: App("memory://", workflows=[hello]).run(call),
    "sync.start": _sync_start,
    "sync.run": lambda call: sync.App("memory://").run(call),
    "sim.start": _sim_start,
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.filterwarnings("error")
def test_what_is_not_a_call_of_a_workflow_says_what_it_is(door: str) -> None:
    """Promise: a step called outside a run is named, and nothing is left unawaited."""
    for given, text in (
        (greet("x"), r"greet is not a workflow.*plain function.*greet\.call\(…\)"),
        (hello, r"give a call, hello\(…\)"),
        ("hello", r"takes a call of a workflow.*'hello'"),
    ):
        with pytest.raises(InvalidInput, match=text):
            DOORS[door](given)


async def test_runs_are_found_by_several_statuses_and_by_their_root(world: World) -> None:
    app = world.app(hello, parent)
    async with world.worker(app):
        await (await app.start(parent("x"), id="p")).result(timeout="60s")
        waiting = await app.start(hello("z"), id="later", delay="1d")

        async def ids(**options: Any) -> set[str]:
            return {view.id async for view in app.runs(**options)}

        assert await ids(root="p") == {"p", "p/hello"}
        assert await ids(status=["completed", "pending"]) == {"p", "p/hello", waiting.id}
        assert await ids(status=("pending",)) == await ids(status="pending") == {waiting.id}


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": 7}, {"status": [7]}, {"status": {"running": 1}}, {"workflow": "\ud800"}, {"queue": "a\0b"},
        {"key": 1}, {"root": b"x"}, {"parent": "\udfff"}, {"version": "\0"}, {"attributes": {"a": "\ud800"}},
        {"attributes": "tier"},
        {"attributes": {"a": "b\0"}}, {"attributes": {"a": 1}}, {"attributes": {1: "a"}}, {"attributes": [("a", "b")]},
    ],
)  # fmt: skip
async def test_a_query_that_no_store_can_answer_is_refused(world: World, wrong: dict[str, Any]) -> None:
    """Promise: the same typed error on every store, for starts too."""
    app = world.app(hello)
    async with app:
        with pytest.raises(InvalidInput):
            _ = [view async for view in app.runs(**wrong)]
        if "attributes" in wrong:
            with pytest.raises(InvalidInput):
                await app.start(hello("x"), **wrong)
            assert [view async for view in app.runs()] == []


async def test_reasons_are_texts_that_every_store_keeps(world: World) -> None:
    app = world.app(hello)
    async with app:
        run = await app.start(hello("x"))
        for verb in (run.cancel, run.kill, run.pause):
            for reason in ("\ud800", "\0"):
                with pytest.raises(InvalidInput, match="reason"):
                    await verb(reason)


async def test_a_signal_is_not_a_topic(world: World) -> None:
    """Promise: who waits for a signal, and publishing one, is refused rather than answered with nothing."""
    app = world.app(hello)
    async with app:
        with pytest.raises(NotAllowedHere, match="approved is a Signal"):
            await app.waiting(approved)
        with pytest.raises(NotAllowedHere, match=r"run\.signal"):
            await app.publish(approved, True)
        assert await app.waiting(news) == []
