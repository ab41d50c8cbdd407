"""Batches: one run of N items, on every kind of store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast import (
    Conflict,
    ItemsFailed,
    RunCancelled,
    RunFailed,
    Status,
)
from holdfast.authoring.batch import batch_plan as plans
from holdfast.engine.engine import Engine
from holdfast.errors import InvalidInput
from holdfast.ports.runs import RunRow
from tests.integration.batch_shop import (
    WORKFLOWS,
    Declined,
    Draft,
    Order,
    Sold,
    ended,
    go,
    inner,
    ledger,
    orders,
    outer,
    sell,
    shop,
    waits,
)
from tests.support.world import Kind, World, open_world, types


@pytest.fixture(autouse=True)
def fresh() -> None:
    ledger.__init__()  # type: ignore[misc]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """A store on real time."""
    async with open_world(cast("Kind", request.param), tmp_path, virtual=False) as made:
        yield made


async def begun(world: World, number: int) -> None:
    await world.until(lambda: number in ledger.begun, f"item {number} began")


@pytest.mark.spec("stepflow.X1", "stepflow.M12", "stepflow.M13", "stepflow.M21")
async def test_each_item_has_its_own_result_and_failures_stay_where_they_are(world: World) -> None:
    """Promise: N items, each with status and result; the whole is failed if any failed, and says which was first."""
    async with world.serving(*WORKFLOWS) as app:
        batch = await app.start_batch(sell, orders(20, bad=(3, 7)), concurrency=4, id="b")
        items = await ended(batch)
        assert [item.index for item in items] == list(range(20))
        assert [item.result for item in items if item.status is Status.COMPLETED] == [
            number * 10 for number in range(20) if number not in {3, 7, 13}
        ]
        assert isinstance(items[3].error, RunFailed)
        assert "no price for 3" in str(items[3].error)
        assert isinstance(items[13].error, Declined)
        with pytest.raises(Declined):
            items[13].value()
        assert items[2].value() == 20
        with pytest.raises(ItemsFailed, match=r"3 of 20 items failed; the first was item \d+") as failed:
            await batch.result("60s")
        assert (failed.value.failed, failed.value.total) == (3, 20)
        counts = await batch.counts()
        assert (counts.total, counts.completed, counts.failed, counts.cancelled) == (20, 17, 3, 0)
        assert (counts.running, counts.pending, counts.done) == (0, 0, 20)
        assert await batch.status() is Status.FAILED


@pytest.mark.spec("stepflow.X1", "stepflow.M3", "stepflow.X3")
async def test_an_empty_batch_completes(world: World) -> None:
    """Promise: no inputs, no items, and the run completes with its end in the journal."""
    async with world.serving(*WORKFLOWS) as app:
        batch = await app.start_batch(sell, [], id="none")
        assert (await batch.result("60s")).total == 0
        assert await ended(batch) == []


@pytest.mark.spec("stepflow.M3")
async def test_before_a_worker_comes_all_items_are_pending(world: World) -> None:
    """Promise: the total is known when the batch is made, and nothing has begun."""
    app = world.app(*WORKFLOWS)
    batch = await app.start_batch(sell, orders(3), id="b")
    counts = await batch.counts()
    assert (counts.total, counts.pending, counts.done) == (3, 3, 0)
    assert await batch.status() is Status.PENDING
    assert (await batch.item(1)).status is Status.PENDING
    with pytest.raises(InvalidInput, match="no item 3"):
        await batch.item(3)


@pytest.mark.spec("stepflow.X2")
async def test_a_limit_of_one_finishes_items_that_wait_for_a_child(world: World) -> None:
    """Promise: children of items need no place of their own, so a limit of one never blocks itself."""
    async with world.serving(*WORKFLOWS) as app:
        batch = await app.start_batch(outer, orders(5), concurrency=1)
        assert [item.result for item in await ended(batch)] == [0, 10, 20, 30, 40]
        assert ledger.most == 1


@pytest.mark.spec("stepflow.X9", "stepflow.M21")
async def test_depth_first_items_begin_in_order_and_at_most_so_many_are_open(world: World) -> None:
    """Promise: an item keeps its place until it has ended; the next begins then."""
    async with world.serving(*WORKFLOWS) as app:
        batch = await app.start_batch(waits, orders(6), concurrency=2)
        await world.until(lambda: len(ledger.begun) == 2)
        assert (await batch.counts()).running == 2
        assert (await batch.counts()).pending == 4
        assert sorted(ledger.begun) == [0, 1]
        for number in range(6):
            await begun(world, number)
            await (await app.get((await batch.item(number)).run)).signal(go, True)
        assert [item.result for item in await ended(batch)] == list(range(6))
        assert (await batch.result("60s")).completed == 6


@pytest.mark.spec("stepflow.M12", "stepflow.M15")
async def test_items_come_by_index_or_as_they_complete(world: World) -> None:
    """Promise: by completion an item comes when it ends; by index one that takes long comes in its place."""
    async with world.serving(*WORKFLOWS) as app:
        batch = await app.start_batch(waits, orders(4), concurrency=4)
        await world.until(lambda: len(ledger.begun) == 4)
        wanted = [2, 0, 3, 1]
        by_index = batch.items()
        first = asyncio.ensure_future(anext(by_index))
        by_completion = batch.items(order="completion")
        for number in wanted:
            await (await app.get((await batch.item(number)).run)).signal(go, True)
            async with asyncio.timeout(60):
                item = await anext(by_completion)
            assert (item.index, item.result) == (number, number)
            if number == 0:  # the others are still open
                async with asyncio.timeout(60):
                    assert (await first).result == 0
        assert [(await first).index, *[item.index async for item in by_index]] == [0, 1, 2, 3]
        assert [item.index for item in await ended(batch, "completion")] == wanted
        assert [item.index for item in await ended(batch)] == [0, 1, 2, 3]
        with pytest.raises(InvalidInput, match="order="):
            batch.items(order="size")  # type: ignore[arg-type]


async def test_read_by_completion_no_item_is_read_a_second_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: once all have come there is nothing left to look for: the end of a long batch takes no longer than any
    other part of it."""
    async with world.serving(*WORKFLOWS) as app:
        batch = await app.start_batch(sell, orders(6), id="b")
        await batch.result("60s")
        store, asked = (await app.client()).store, list[str]()
        get = store.get

        async def noted(run: str) -> RunRow | None:
            asked.append(run)
            return await get(run)

        monkeypatch.setattr(store, "get", noted)
        assert len(await ended(batch, "completion")) == 6
        assert set(asked) == {"b"}


async def test_a_batch_of_several_chunks_goes_on_from_one_to_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: chunks follow each other without a pause, items that are open are taken along, and none is run twice."""
    monkeypatch.setattr("holdfast.authoring.batch.batch_inputs.CHUNK_ITEMS", 5)
    async with world.serving(*WORKFLOWS, step_limit=3) as app:
        batch = await app.start_batch(waits, orders(12), concurrency=7, id="b")
        await world.until(lambda: len(ledger.begun) == 7)
        assert (await batch.counts()).running == 7
        for number in (6, 5, 4, 3, 2, 1, 11, 10, 9, 8, 7, 0):
            await begun(world, number)
            await (await app.get((await batch.item(number)).run)).signal(go, True)
        assert [item.result for item in await ended(batch)] == list(range(12))
        assert (await batch.result("60s")).completed == 12
        assert sorted(ledger.begun) == sorted(set(ledger.begun))
        assert {item.index for item in await ended(batch, "completion")} == set(range(12))
        journal = await types(await app.get("b"))
        assert journal.count("continued") >= 2


async def test_cancel_stops_the_rest(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: what has ended stays, what runs is cancelled, what was not started never is."""
    monkeypatch.setattr("holdfast.authoring.batch.batch_inputs.CHUNK_ITEMS", 3)
    async with world.serving(*WORKFLOWS) as app:
        batch = await app.start_batch(waits, orders(9), concurrency=2)
        for number in range(3):
            await begun(world, number)
            await (await app.get((await batch.item(number)).run)).signal(go, True)
        await world.until(lambda: set(ledger.begun) == set(range(5)))  # a body may be replayed, and begins again then
        await batch.cancel("enough")
        items = await ended(batch)
        assert [item.status.value for item in items] == ["completed"] * 3 + ["cancelled"] * 6
        assert isinstance(items[8].error, RunCancelled)
        assert "never started" in str(items[8].error)
        assert await batch.wait("60s") is Status.CANCELLED
        assert [item.index for item in await ended(batch, "completion")][:3] == [0, 1, 2]
        counts = await batch.counts()
        assert (counts.completed, counts.cancelled, counts.pending) == (3, 2, 4)
        assert set(ledger.begun) == set(range(5))


@pytest.mark.spec("stepflow.M13")
async def test_an_item_that_is_cancelled_by_itself_does_not_fail_its_batch(world: World) -> None:
    """Promise: the batch completes, and counts the item as cancelled."""
    async with world.serving(*WORKFLOWS) as app:
        batch = await app.start_batch(waits, orders(2), concurrency=2)
        await world.until(lambda: set(ledger.begun) == {0, 1})
        await (await app.get((await batch.item(0)).run)).cancel("only this one")
        await (await app.get((await batch.item(1)).run)).signal(go, True)
        counts = await batch.result("60s")
        assert (counts.completed, counts.cancelled, counts.failed) == (1, 1, 0)
        assert await batch.status() is Status.COMPLETED


async def test_only_the_items_that_did_not_complete_are_run_again(world: World) -> None:
    """Promise: a retry is a new batch of the failed items, with their indexes and inputs."""
    async with world.serving(*WORKFLOWS) as app:
        batch = await app.start_batch(sell, orders(10, bad=(4, 8)), concurrency=3, id="b")
        await batch.wait("60s")
        ledger.begun.clear()
        again = await batch.retry(id="b2")
        items = await ended(again)
        assert [item.index for item in items] == [4, 8]
        assert sorted(ledger.begun) == [4, 8]
        assert {item.index for item in await ended(again, "completion")} == {4, 8}
        assert (await again.item(8)).status is Status.FAILED
        assert (await again.counts()).total == 2
        third = await (await app.batch("b2", sell)).retry()
        assert third.id == "b2~retry"
        assert await third.wait("60s") is Status.FAILED


async def test_a_batch_that_goes_on_is_not_retried(world: World) -> None:
    """Promise: only what has ended is run again."""
    app = world.app(*WORKFLOWS)
    batch = await app.start_batch(sell, orders(2))
    with pytest.raises(Conflict, match="cancel the rest"):
        await batch.retry()


@pytest.mark.spec("stepflow.M2")
async def test_the_same_id_is_the_same_batch(world: World) -> None:
    """Promise: the same inputs again give the batch that is there; others are a conflict."""
    app = world.app(*WORKFLOWS)
    first = await app.start_batch(sell, orders(3), id="b")
    again = await app.start_batch(sell, orders(3), id="b", concurrency=2)
    assert first.id == again.id
    with pytest.raises(Conflict, match="different inputs"):
        await app.start_batch(sell, orders(4), id="b")
    with pytest.raises(Conflict, match="different inputs"):
        await app.start_batch(inner, orders(3), id="b")
    same = await app.batch("b", sell)
    assert (await same.counts()).total == 3
    with pytest.raises(Conflict, match="not 'inner'"):
        await app.batch("b", inner)


async def test_machines_are_batched_like_scripts(world: World) -> None:
    """Promise: the same code for any workflow."""
    async with world.serving(*WORKFLOWS) as app:
        batch = await app.start_batch(shop, (Draft(number) for number in range(3)))
        assert [item.result for item in await ended(batch)] == [Sold(0), Sold(2), Sold(4)]


def test_an_item_is_found_by_the_id_of_its_run() -> None:
    """Promise: index and run id give each other, whatever the batch is called."""
    assert plans.index_of("a/b", plans.item_id("a/b", 17)) == 17
    assert plans.index_of("a", "a/b/17") is None
    assert plans.index_of("a", "a/x") is None


async def test_lives_of_a_batch_begin_from_memory(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: the journal of a batch is not read again for each of its chunks: with many of them that would be the
    square of the work."""
    monkeypatch.setattr("holdfast.authoring.batch.batch_inputs.CHUNK_ITEMS", 4)
    opened: list[str] = []
    inner = Engine._open_cold

    def noted(self: Engine, row: RunRow, *args: Any) -> Any:
        opened.append(row.id)
        return inner(self, row, *args)

    monkeypatch.setattr(Engine, "_open_cold", noted)
    async with world.serving(*WORKFLOWS) as app:
        batch = await app.start_batch(sell, (Order(number + 20) for number in range(40)), concurrency=3, id="b")
        assert (await batch.result("60s")).completed == 40
        journal = await types(await app.get("b"))
    assert journal.count("continued") == 9
    assert opened.count("b") <= 1
