"""`batch()` in a workflow: a batch that is a child of the run, and its results."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast import (
    ItemsFailed,
    RunCancelled,
    RunFailed,
    Signal,
    batch,
    step,
    sync,
    workflow,
)
from holdfast.core import events as e
from holdfast.core.turn import decode_row
from holdfast.errors import NotInRun
from holdfast.testing import Sim, crash_sweep
from tests.support.world import World, forget_programs, types

go = Signal[bool]("go")


@dataclass
class Price:
    sku: str
    cents: int


@step
async def look_up(sku: str) -> Price:
    return Price(sku, len(sku) * 100)


@workflow
async def offer(sku: str, discount: int = 0) -> Price:
    if sku == "bad":
        raise ValueError("no such thing")
    return Price(sku, (await look_up(sku)).cents - discount)


@workflow
async def catalogue(skus: list[str]) -> int:
    looked = await batch(look_up, skus, concurrency=20)
    offered = await batch(offer, [offer(sku, discount=1) for sku in skus[:3]], name="offers")
    assert [price.sku for price in looked] == skus
    assert await batch(offer, []) == []
    return sum(price.cents for price in [*looked, *offered])


@workflow
async def short(skus: list[str]) -> list[Price]:
    return await batch(look_up, skus)


@sync.workflow
def blocking(skus: list[str]) -> int:
    return sum(price.cents for price in sync.batch(offer, skus, concurrency=2, order="breadth"))


@workflow
async def risky(skus: list[str]) -> str:
    try:
        await batch(offer, skus)
    except ItemsFailed as failed:
        return f"{failed.failed} of {failed.total}"
    return "all"


@workflow
async def held(sku: str) -> str:
    await go.wait()
    return sku


@workflow
async def impatient(skus: list[str]) -> str:
    try:
        async with asyncio.timeout(60):
            await batch(held, skus, concurrency=2)
    except TimeoutError:
        return "too late"
    return "in time"


@workflow
async def patient(skus: list[str]) -> list[str]:
    return await batch(held, skus)


SKUS = [f"sku-{number % 7}" for number in range(30)]


async def test_results_come_in_order_and_count_once(world: World) -> None:
    """Promise: thirty items of a run whose step limit is ten; each is a run of its own, and so is the batch."""
    async with world.serving(catalogue, offer, look_up, step_limit=10) as app:
        run = await app.start(catalogue(SKUS), id="c")
        assert await run.result(timeout="30s") == 30 * 500 + 3 * 499
        made = [view.id async for view in app.runs(root="c")]
        assert len(made) == 1 + (1 + 30) + (1 + 3)
        first = await app.batch("c/look_up.batch", look_up)
        assert [item.result async for item in first.items()] == [Price(sku, 500) for sku in SKUS]
        rows = [decode_row(row) for row in await world.store.history("c")]
        assert len(rows) <= 7
        assert not any(isinstance(x, e.StepFailed | e.AttemptFailed) for row in rows for x in row.events)


async def test_a_worker_that_forgot_the_run_replays_it(world: World) -> None:
    """Promise: a replay asks for the same batch, and reads its results once."""
    async with world.serving(patient, held) as app:
        run = await app.start(patient(["a", "b"]), id="p")

        async def both() -> bool:
            return len([view async for view in app.runs(workflow="held")]) == 2

        await world.until(both)
        await world.until_parked("p")
        forget_programs(world.workers[0])
        for index in (0, 1):
            await (await app.get(f"p/held.batch/{index}")).signal(go, True)
        assert await run.result(timeout="30s") == ["a", "b"]
        assert (await types(run)).count("step") == 1


def test_no_crash_changes_what_a_batch_gives() -> None:
    """Promise: wherever the worker stops, one batch, its results in order, and the same journal."""
    crash_sweep(short(["a"]), processes=0, pairs=0).assert_ok()


def test_a_failed_item_is_told_when_all_have_ended() -> None:
    """Promise: `ItemsFailed` with its numbers, which the workflow may catch; else the run fails with it."""
    with Sim() as sim:
        assert sim.start(risky(["a", "bad", "b", "bad"]), id="r").result() == "2 of 4"
        with pytest.raises(RunFailed, match="ItemsFailed: 1 of 1 items failed"):
            sim.start(catalogue(["bad"])).result()
        assert next(view.id for view in sim.runs() if view.workflow == "holdfast.batch") == "r/offer.batch"


def test_it_works_in_a_def_workflow() -> None:
    """Promise: `sync.batch` gives the same."""
    with Sim() as sim:
        assert sim.start(blocking.call(["a", "bb", "ccc"])).result() == 600


def test_a_batch_ends_with_the_call_that_waits_for_it() -> None:
    """Promise: a timeout around the call, and a cancel of the run, cancel the batch and its items."""
    with Sim() as sim:
        late = sim.start(impatient(["a", "b", "c"]), id="late")
        sim.advance("61s")
        assert late.result() == "too late"
        cancelled = sim.start(impatient(["a", "b", "c"]), id="gone")
        cancelled.cancel("enough")
        with pytest.raises(RunCancelled, match="enough"):
            cancelled.result()
        assert {str(view.status) for view in sim.runs() if "held.batch" in view.id} == {"cancelled"}


@workflow
async def wrong(how: str) -> str:
    untyped: Any = batch
    odd: Any = {
        "kind": lambda: untyped(print, ["a"]),
        "text": lambda: untyped(offer, "abc"),
        "item": lambda: untyped(offer, ["a", 5]),
        "other": lambda: untyped(offer, ["a", held("b")]),
        "many": lambda: untyped(offer, ["a"], concurrency=2000),
        "order": lambda: untyped(offer, ["a"], order="width"),
        "call": lambda: untyped(look_up, [look_up("a")]),
    }
    await odd[how]()
    return "never"


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("kind", r"batch\(\) takes a workflow or step"),
        ("text", "takes an iterable of inputs, one for each item, got str"),
        ("item", r"input 1: .*sku.*Nothing was started"),
        ("other", "input 1 is a call of held, not of offer"),
        ("many", "from 1 to 1,000"),
        ("order", "'depth' or 'breadth'"),
        ("call", "give the arguments of a step, not its call"),
    ],
)
def test_bad_input_is_refused_before_anything_starts(how: str, said: str) -> None:
    """Promise: what is wrong is said in the workflow, and no batch begins."""
    with Sim() as sim:
        with pytest.raises(RunFailed, match=said):
            sim.start(wrong(how)).result()
        assert len(sim.runs()) == 1


@step
async def in_a_step() -> None:
    await batch(offer, ["a"])


@workflow
async def misplaced() -> None:
    await in_a_step()


def test_it_belongs_in_a_workflow() -> None:
    """Promise: in a step and outside a run the error says what to call instead."""
    with Sim() as sim, pytest.raises(RunFailed, match=r"batch\(\) is for workflows.*app\.start_batch"):
        sim.start(misplaced()).result()
    with pytest.raises(NotInRun, match=r"app\.start_batch"):
        asyncio.run(batch(offer, ["a"]))
    with pytest.raises(NotInRun, match=r"app\.start_batch"):
        sync.batch(offer, ["a"])
