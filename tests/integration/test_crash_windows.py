"""Crash windows: a worker is cut off right before and right after a write, and nothing is half there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

import pytest

from holdfast import App, Status, current, step, workflow
from holdfast.core import events as e
from holdfast.core.turn import decode_row
from holdfast.ports.journal import Commit
from holdfast.ports.store import Store
from holdfast.testing.conformance.world import settle
from tests.support.world import World, crash

When = Literal["before", "after"]
BOTH = pytest.mark.parametrize("when", ["before", "after"])


class Cut:
    """A store that goes dead at one chosen commit, right before or right after it: nobody gets an answer any more."""

    def __init__(self, inner: Store, when: When, wanted: Callable[[Commit], bool]) -> None:
        self.inner = inner
        self.when = when
        self.wanted = wanted
        self.is_cut = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def commit_now(self, commit: Commit) -> None:
        """Never: every turn goes the way that can be cut."""

    async def create(self, new: Any, **options: Any) -> Any:
        """Without the first turn, so that every turn goes the way that can be cut."""
        return await self.inner.create(new, **{**options, "first": None})

    async def commit(self, batch: Sequence[Commit]) -> Any:
        """Goes dead at the chosen one."""
        if self.is_cut.is_set():
            await asyncio.Event().wait()
        if not any(self.wanted(commit) for commit in batch):
            return await self.inner.commit(batch)
        if self.when == "after":
            await self.inner.commit(batch)
        self.is_cut.set()
        return await asyncio.Event().wait()


def holding(kind: type[e.AnyEvent]) -> Callable[[Commit], bool]:
    return lambda commit: any(isinstance(event, kind) for event in decode_row(commit.row).events)


async def cut_off(world: World, when: When, kind: type[e.AnyEvent], start: Any, *workflows: Any) -> App:
    """Runs it until the cut, ends the worker as a power cut would, and gives an app on the store as it is."""
    cut = Cut(world.store, when, holding(kind))
    app = App(workflows=workflows, store=cast("Store", cut))
    async with world.worker(app, id="w1") as worker:
        await app.start(start, id="r")
        async with asyncio.timeout(30):
            await cut.is_cut.wait()
        await crash(worker)
    return world.app(*workflows)


ran: list[str] = []


@step
async def note(name: str) -> str:
    ran.append(name)
    return name


@workflow
async def child() -> str:
    return await note("child")


@workflow
async def parent() -> str:
    return await note("a") + await child() + await note("b")


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


@pytest.mark.spec("stepflow.W1", "stepflow.W2", "stepflow.J13", "traps.A6")
@BOTH
async def test_a_start_is_there_whole_or_not_at_all(still: World, when: When) -> None:
    """Promise: before the commit there is no run, and the same start again makes it; after it, the run is found."""
    is_cut = asyncio.Event()

    class Starting(Cut):
        async def create(self, new: Any, **options: Any) -> Any:
            if when == "after":
                await self.inner.create(new, **options)
            is_cut.set()
            await asyncio.Event().wait()

    dying = App(workflows=[parent, child], store=cast("Store", Starting(still.store, when, lambda _: False)))
    starting = asyncio.create_task(dying.start(parent(), id="r"))
    async with asyncio.timeout(30):
        await is_cut.wait()
    starting.cancel()
    await asyncio.wait([starting])
    row = await still.store.get("r")
    assert (row is None) == (when == "before")
    await settle(still.store, "r")
    assert [x.run for x in await still.store.read_tree("r")] == ([] if when == "before" else ["r"])
    app = still.app(parent, child)
    run = await app.start(parent(), id="r")
    async with still.worker(app):
        assert await run.result("30s") == "achildb"
    assert ran == ["a", "child", "b"]


@pytest.mark.spec("stepflow.W3", "stepflow.R13", "stepflow.R14")
@BOTH
async def test_a_child_is_made_with_its_parents_turn_or_not_at_all(still: World, when: When) -> None:
    """Promise: the parent's event, the child's event and its row are all there, or none is; there is one child."""
    app = await cut_off(still, when, e.ChildStarted, parent(), parent, child)
    parents = [event for row in await still.store.history("r") for event in decode_row(row).events]
    made = [event.run for event in parents if isinstance(event, e.ChildStarted)]
    assert len(made) == (0 if when == "before" else 1)
    assert [await still.store.get(run) is not None for run in made] == [True] * len(made)
    await settle(still.store, "r")
    assert len({row.run for row in await still.store.read_tree("r")}) == 1 + len(made)
    async with still.worker(app, id="w1"):
        assert await (await app.get("r", parent)).result("30s") == "achildb"
    # The row that asks for the child also holds the outcome of the step before it: lost together, done again.
    assert ran == (["a", "a", "child", "b"] if when == "before" else ["a", "child", "b"])
    await settle(still.store, "r")
    assert len({row.run for row in await still.store.read_tree("r")}) == 2


@pytest.mark.spec("stepflow.W4", "stepflow.W5", "traps.A5", "traps.A6")
@BOTH
async def test_an_end_is_there_whole_or_not_at_all(still: World, when: When) -> None:
    """Promise: terminal event, status, time and result are all there, or none is; an ended run is found by nobody."""
    app = await cut_off(still, when, e.Completed, child(), child)
    row = await still.row("r")
    rows = await still.store.history("r")
    is_over = any(isinstance(event, e.Completed) for row in rows for event in decode_row(row).events)
    assert (row.status.is_terminal, row.ended_at is not None, is_over) == ((when == "after"),) * 3
    before = len(rows)
    async with still.worker(app, id="w1") as worker:
        assert await (await app.get("r", child)).result("30s") == "child"
        assert worker.recovery.count("own") == (1 if when == "before" else 0)
    assert ran == (["child", "child"] if when == "before" else ["child"])
    if when == "after":
        assert len(await still.store.history("r")) == before


@pytest.mark.spec("stepflow.W5", "traps.A5")
async def test_a_run_that_never_began_is_not_complete(still: World) -> None:
    """Promise: nothing pending is no end: a run that was made and never taken up is run, once."""
    app = still.app(child)
    run = await app.start(child(), id="r")
    assert (await still.row(run)).status is Status.PENDING
    assert (await still.store.trees())[0].open == 1
    async with still.worker(app):
        assert await run.result("30s") == "child"
    assert ran == ["child"]


@pytest.mark.spec("stepflow.W6", "stepflow.R11")
@BOTH
async def test_a_step_is_recorded_before_its_body_begins(still: World, when: When) -> None:
    """Promise: cut off before the row that asks for a step, its body never ran, and it begins as attempt 1; after it,
    the body did not run either, and begins as the next attempt."""
    attempts: list[int] = []

    @step
    async def only() -> None:
        attempts.append(current().attempt)

    @workflow
    async def work() -> None:
        await only()

    app = await cut_off(still, when, e.StepScheduled, work(), work)
    assert attempts == []
    async with still.worker(app, id="w1"):
        await (await app.get("r", work)).result("30s")
    assert attempts == [1 if when == "before" else 2]


@pytest.mark.spec("stepflow.W6", "stepflow.R10", "vectorbea.V14", "openworkflow.O41")
@BOTH
async def test_an_outcome_is_recorded_before_what_follows_from_it(still: World, when: When) -> None:
    """Promise: cut off around a step's outcome, the next step has not begun; a recorded outcome is not done again."""

    @workflow
    async def two() -> str:
        return await note("a") + await note("b")

    app = await cut_off(still, when, e.StepCompleted, two(), two)
    assert ran == ["a"]
    async with still.worker(app, id="w1"):
        assert await (await app.get("r", two)).result("30s") == "ab"
    assert ran == (["a", "a", "b"] if when == "before" else ["a", "b"])
