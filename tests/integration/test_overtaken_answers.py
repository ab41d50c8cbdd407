"""A claim that overtakes the answer of the write that gave the run back: another connection may be faster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from holdfast import App, Signal, step, workflow
from holdfast.engine import holdings
from holdfast.ports.journal import Answer, Commit
from tests.support.faults import FaultyStore
from tests.support.world import World, open_world

go = Signal[int]("go")
entered: list[str] = []


@step
async def ready() -> None:
    """Something to do first: the run is parked by a turn of its own."""


@workflow
async def waits(name: str) -> int:
    entered.append(name)
    await ready()
    return await go.wait()


class Withheld(FaultyStore):
    """Withholds the answer of the first turn that parks a run. It is durable."""

    def __init__(self, world: World) -> None:
        super().__init__(world.store)
        self.parked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def commit(self, batch: Sequence[Commit]) -> Sequence[Answer]:
        answers = await self.inner.commit(batch)
        if any(commit.park is not None for commit in batch) and not self.parked.is_set():
            self.parked.set()
            await self.may_answer.wait()
        return answers


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    entered.clear()
    async with open_world("memory", tmp_path, virtual=False) as world:
        yield world


async def test_a_claim_waits_for_the_answer_it_overtook(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: the run continues as soon as the answer is here, with the program that is in memory."""
    monkeypatch.setattr(holdings, "MOMENT", 3600.0)  # the answer ends the wait, or the test fails
    store = Withheld(world)
    app = App(workflows=[waits], store=store.store)
    async with app.worker(poll="1h", ttl="3h") as worker:
        run = await app.start(waits("r"), id="r")
        await world.until_set(store.parked)
        session = worker.engine.sessions["r"]
        assert session.is_settling
        await run.signal(go, 1)
        worker.work_hinted.set()  # as the next poll would
        await world.until(lambda: "r" in worker.engine.opening, "claimed again")
        assert worker.engine.sessions["r"] is session
        store.may_answer.set()
        assert await run.result("30s") == 1
    assert entered == ["r"], "its program was not replayed"


async def test_a_claim_does_not_wait_for_ever(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: if the answer does not come, the journal says what it would have said."""
    monkeypatch.setattr(holdings, "MOMENT", 0.001)
    store = Withheld(world)
    app = App(workflows=[waits], store=store.store)
    async with app.worker(poll="1h", ttl="3h") as worker:
        run = await app.start(waits("r"), id="r")
        await world.until_set(store.parked)
        await run.signal(go, 1)
        worker.work_hinted.set()  # as the next poll would
        await world.until(lambda: entered == ["r", "r"], "replayed")
        store.may_answer.set()
        assert await run.result("30s") == 1
