"""Large fan-out: a parent of many children costs what they are many, and keeps nobody else waiting."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import App, Status, step, workflow
from holdfast.adapters.sqlite import open_sqlite
from holdfast.adapters.sqlite.readers import Readers
from holdfast.adapters.sqlite.transaction import Transaction
from holdfast.core import events as e
from holdfast.core.turn import Row, decode_row
from holdfast.engine.engine import Engine
from holdfast.ports.runs import Filter
from tests.support.world import World

PACE, LONGEST = 0.000_05, 0.05
"""Seconds between two turns of a parent for each child it waits for, and at most."""


@workflow
async def leaf(number: int) -> int:
    return number


@workflow
async def fan(count: int) -> int:
    return sum(await asyncio.gather(*(leaf(number) for number in range(count))))


@workflow
async def alone() -> str:
    return "done"


class Work:
    """What the store and the engine are asked to do, counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[str] = Counter()
        for owner, name in ((Transaction, "run"), (Transaction, "row"), (Transaction, "rows"), (Readers, "read")):
            self._count(monkeypatch, owner, name, "statements")
        self._count(monkeypatch, Engine, "_open_cold", "replays")

    def _count(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, what: str) -> None:
        inner = getattr(owner, name)

        def counted(*args: Any, **named: Any) -> Any:
            self.counts[what] += 1
            return inner(*args, **named)

        monkeypatch.setattr(owner, name, counted)


def paces(rows: list[Row]) -> list[float]:
    """How long the parent is to wait after each of its turns: as its open children are many."""
    found: list[float] = []
    children = 0
    for row in rows:
        found.append(min(children * PACE, LONGEST))
        events = decode_row(row).events
        children += sum(isinstance(x, e.ChildStarted) for x in events)
        children -= sum(isinstance(x, e.ChildEnded) for x in events)
    return found


async def fan_out(path: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Counter[str], list[float], float]:
    """The work of a whole fan-out, the pace of each of the parent's turns, and how long it took."""
    store = await open_sqlite(path, durability="normal")
    app = App(workflows=[leaf, fan], store=store, step_limit=None)
    try:
        with monkeypatch.context() as patched:
            work, begin = Work(patched), time.monotonic()
            async with app.worker():
                run = await app.start(fan(count))
                assert await run.result("100s") == count * (count - 1) // 2
            took = time.monotonic() - begin
        assert (await store.count())[Status.COMPLETED] == count + 1
        return work.counts, paces(await store.history(run.id)), took
    finally:
        await store.close()


@pytest.mark.slow
async def test_the_work_of_a_child_does_not_grow_with_its_siblings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    """Promise: ten times the children, ten times the work: statements per child stay within 1.3×, the parent is not
    replayed for its children's ends, and between its turns is a time as its open children are many, up to 50 ms."""
    few, _, _ = await fan_out(tmp_path / "few.db", 300, monkeypatch)
    many, waited, took = await fan_out(tmp_path / "many.db", 3_000, monkeypatch)
    per_child = f"statements per child: {few['statements'] / 300:.1f} of 300, {many['statements'] / 3_000:.1f} of 3,000"
    record_property("figure", f"{per_child}; the parent of 3,000 took {len(waited)} turns in {took:.1f} s")
    assert many["statements"] / 3_000 <= 1.3 * few["statements"] / 300
    assert many["replays"] <= 3_000 + 2 + took  # each child once; the parent hardly ever, and never for a child
    assert sum(waited) <= took + 5 * LONGEST


@pytest.mark.parametrize("kinds", [1, 2])
async def test_other_runs_do_not_wait_for_the_last_child(world: World, kinds: int) -> None:
    """Promise: a run that is started behind two hundred children of one parent is done while most of them wait, of
    however many workflows they are."""

    @step
    async def slow() -> None:
        await asyncio.sleep(0.002)

    @workflow
    async def child() -> None:
        await slow()

    @workflow
    async def sibling() -> None:
        await slow()

    @workflow
    async def parent() -> None:
        await asyncio.gather(*((child, sibling)[number % kinds]() for number in range(200)))

    app, starter = world.app(parent, child, sibling, alone), world.app(alone)

    async def waiting() -> int:
        names = ("child", "sibling")
        pages = [await world.store.list(Filter(workflow=name, statuses=(Status.PENDING,)), limit=500) for name in names]
        return sum(len(page.runs) for page in pages)

    async with world.worker(app, concurrency=2):
        run = await app.start(parent())

        async def has_begun() -> bool:
            return 0 < await waiting() < 199

        await world.until(has_begun)
        assert await (await starter.start(alone())).result("30s") == "done"
        assert await waiting() > 100
        await run.result("60s")
