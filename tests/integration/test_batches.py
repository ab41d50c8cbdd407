"""Batches: one run of N items, on every kind of store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast import (
    App,
    Batch,
    Conflict,
    FlowBuilder,
    Item,
    ItemsFailed,
    Machine,
    Retry,
    RunCancelled,
    RunFailed,
    RunNotFound,
    Signal,
    Status,
    step,
    workflow,
)
from holdfast.authoring.batch import plan as plans
from holdfast.engine.engine import Engine
from holdfast.errors import BlobNotFound, InvalidInput, InvalidItem
from holdfast.ports.runs import RunRow
from tests.support.faults import FaultyStore
from tests.support.world import Kind, World, open_world

go = Signal[bool]("go")


class Declined(Exception):
    pass


@dataclass
class Order:
    id: int
    bad: bool = False


class Ledger:
    """What ran, and how much of it at a time."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.now = self.most = 0


ledger = Ledger()


@pytest.fixture(autouse=True)
def fresh() -> None:
    ledger.__init__()  # type: ignore[misc]


@step(retry=Retry.none)
async def price(order: Order) -> int:
    ledger.begun.append(order.id)
    ledger.now += 1
    ledger.most = max(ledger.most, ledger.now)
    await asyncio.sleep(0)
    ledger.now -= 1
    if order.bad:
        raise ValueError(f"no price for {order.id}")
    return order.id * 10


@workflow(raises=Declined)
async def sell(order: Order, discount: int = 0) -> int:
    if order.id == 13:
        raise Declined("unlucky")
    return await price(order) - discount


@workflow
async def inner(order: Order) -> int:
    return await price(order)


@workflow
async def outer(order: Order) -> int:
    return await inner(order)


@workflow
async def waits(order: Order) -> int:
    ledger.begun.append(order.id)
    await go.wait()
    return order.id


@dataclass
class Draft:
    id: int


@dataclass
class Sold:
    cents: int


shop = Machine[Draft, Sold]("shop")


@shop.state
async def sold(s: Draft) -> Sold:
    return Sold(s.id * 2)


WORKFLOWS: list[Any] = [sell, inner, outer, waits, shop]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """A store on real time."""
    async with open_world(cast("Kind", request.param), tmp_path, virtual=False) as made:
        yield made


def orders(count: int, bad: tuple[int, ...] = ()) -> Iterator[Order]:
    return (Order(number, number in bad) for number in range(count))


async def begun(world: World, number: int) -> None:
    await world.until(lambda: number in ledger.begun, f"item {number} began")


async def ended(batch: Batch[Any]) -> list[Item[Any]]:
    async with asyncio.timeout(60):
        return [item async for item in batch.items()]


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


@pytest.mark.spec("stepflow.X9")
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


@pytest.mark.spec("stepflow.M15")
async def test_items_come_by_index_or_as_they_complete(world: World) -> None:
    """Promise: by completion an item comes when it ends; by index one that takes long comes in its place."""
    async with world.serving(*WORKFLOWS) as app:
        batch = await app.start_batch(waits, orders(4), concurrency=4)
        await world.until(lambda: len(ledger.begun) == 4)
        wanted = [2, 0, 3, 1]
        by_completion = batch.items(order="completion")
        for number in wanted:
            await (await app.get((await batch.item(number)).run)).signal(go, True)
            async with asyncio.timeout(60):
                item = await anext(by_completion)
            assert (item.index, item.result) == (number, number)
        assert [item.index async for item in batch.items(order="completion")] == wanted
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
        assert len([item async for item in batch.items(order="completion")]) == 6
        assert set(asked) == {"b"}


async def test_a_batch_of_several_chunks_goes_on_from_one_to_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: chunks follow each other without a pause, items that are open are taken along, and none is run twice."""
    monkeypatch.setattr("holdfast.client.batches.CHUNK_ITEMS", 5)
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
        assert {item.index async for item in batch.items(order="completion")} == set(range(12))
        journal = [event.type async for event in (await app.get("b")).follow()]
        assert journal.count("continued") >= 2


async def test_cancel_stops_the_rest(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: what has ended stays, what runs is cancelled, what was not started never is."""
    monkeypatch.setattr("holdfast.client.batches.CHUNK_ITEMS", 3)
    async with world.serving(*WORKFLOWS) as app:
        batch = await app.start_batch(waits, orders(9), concurrency=2)
        for number in range(3):
            await begun(world, number)
            await (await app.get((await batch.item(number)).run)).signal(go, True)
        await world.until(lambda: len(ledger.begun) == 5)
        await batch.cancel("enough")
        items = await ended(batch)
        assert [item.status.value for item in items] == ["completed"] * 3 + ["cancelled"] * 6
        assert isinstance(items[8].error, RunCancelled)
        assert "never started" in str(items[8].error)
        assert await batch.wait("60s") is Status.CANCELLED
        assert [item.index async for item in batch.items(order="completion")][:3] == [0, 1, 2]
        counts = await batch.counts()
        assert (counts.completed, counts.cancelled, counts.pending) == (3, 2, 4)
        assert len(ledger.begun) == 5


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
        assert {item.index async for item in again.items(order="completion")} == {4, 8}
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


async def test_an_input_that_does_not_fit_starts_nothing(world: World) -> None:
    """Promise: the index and the path are named, and no run is made."""
    app = world.app(*WORKFLOWS)
    wrong: list[Any] = [Order(0), Order(1), Order("two"), Order(3)]  # type: ignore[arg-type]
    with pytest.raises(InvalidItem, match=r"input 2: .*order\.id") as refused:
        await app.start_batch(sell, wrong, id="b")
    assert (refused.value.index, refused.value.path) == (2, "order.id")
    with pytest.raises(InvalidItem, match="input 0 is a call of inner"):
        await app.start_batch(sell, [inner(Order(1))], id="b")
    assert [view.id async for view in app.runs()] == []


@pytest.mark.parametrize("concurrency", [0, -1, 1001, True, "4"])
async def test_a_wrong_limit_is_refused(concurrency: Any) -> None:
    """Promise: before anything is read or written."""
    with pytest.raises(InvalidInput, match="concurrency="):
        await App("memory://").start_batch(sell, orders(1), concurrency=concurrency)


async def test_other_wrong_uses_are_refused() -> None:
    """Promise: each says what to give instead."""
    app = App("memory://", workflows=WORKFLOWS)
    with pytest.raises(InvalidInput, match="an iterable of inputs"):
        await app.start_batch(sell, 7)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="takes a workflow"):
        await app.start_batch(price, orders(1))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="longer than 200 bytes"):
        await app.start_batch(sell, orders(1), id="x" * 201)
    with pytest.raises(RunNotFound):
        await app.batch("nothing")
    await app.start(sell(Order(1)), id="single")
    with pytest.raises(Conflict, match="not a batch"):
        await app.batch("single")


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


async def test_inputs_may_be_calls_or_come_from_an_async_iterator(world: World) -> None:
    """Promise: an item may have more than one argument, and inputs are read as they come."""

    async def arriving() -> AsyncIterator[Order]:
        for order in orders(3):
            await asyncio.sleep(0)
            yield order

    async with world.serving(*WORKFLOWS) as app:
        calls = await app.start_batch(sell, (sell(order, discount=1) for order in orders(3)))
        assert [item.result for item in await ended(calls)] == [-1, 9, 19]
        later = await app.start_batch(sell, arriving())
        assert [item.result for item in await ended(later)] == [0, 10, 20]


async def test_inputs_that_took_too_long_to_come_start_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: what nothing refers to yet may be collected; a batch that lost inputs to that is not started, however
    short the moment between its last input and its start."""
    monkeypatch.setattr("holdfast.client.batches.CHUNK_ITEMS", 2)
    faulty = FaultyStore(world.store)
    app = App(workflows=[sell], store=faulty.store)

    async def collect(name: str, _: tuple[Any, ...]) -> None:
        if name == "create":
            await world.store.collect(timedelta(seconds=-60))

    faulty.before = collect
    with pytest.raises(BlobNotFound, match="Nothing was started"):
        await app.start_batch(sell, orders(3), id="b")
    async with world.worker(app) as worker:  # which would begin it at once
        with pytest.raises(BlobNotFound, match="Nothing was started"):
            await app.start_batch(sell, orders(3), id="b")
        assert not worker.engine.sessions
        assert not worker.engine.beginnings
    assert await world.store.get("b") is None
    faulty.before = None
    async with world.serving(*WORKFLOWS) as app:
        assert len(await ended(await app.start_batch(sell, orders(3), id="b"))) == 3


async def test_machines_are_batched_like_scripts(world: World) -> None:
    """Promise: the same code for any workflow."""
    async with world.serving(*WORKFLOWS) as app:
        batch = await app.start_batch(shop, (Draft(number) for number in range(3)))
        assert [item.result for item in await ended(batch)] == [Sold(0), Sold(2), Sold(4)]


async def test_inputs_are_never_held_all_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: reading inputs holds one chunk of them; what was read before is written."""
    monkeypatch.setattr("holdfast.client.batches.CHUNK_ITEMS", 10)
    read = 0
    held: list[int] = []
    put = world.store.put_blob

    def counted() -> Iterator[Order]:
        nonlocal read
        for order in orders(95):
            read += 1
            yield order

    async def put_blob(data: Any, **options: Any) -> str:
        held.append(read - sum(held))
        return await put(data, **options)

    monkeypatch.setattr(world.store, "put_blob", put_blob)
    batch = await world.app(*WORKFLOWS).start_batch(sell, counted())
    assert (await batch.counts()).total == 95
    assert max(held) <= 10


def test_an_item_is_found_by_the_id_of_its_run() -> None:
    """Promise: index and run id give each other, whatever the batch is called."""
    assert plans.index_of("a/b", plans.item_id("a/b", 17)) == 17
    assert plans.index_of("a", "a/b/17") is None
    assert plans.index_of("a", "a/x") is None


priced = FlowBuilder(
    "priced", input_schema={"type": "object", "required": ["id"], "properties": {"id": {"minimum": 0}}}
)
cents = priced.call("cents", price, {"order": {"id": priced.input["id"], "bad": priced.input["bad"].otherwise(False)}})
PRICED = priced.build({"cents": cents, "region": priced.var("region", "eu")})


async def test_a_flow_over_many_inputs(world: World) -> None:
    """Promise: items of a flow are what items of a workflow are: results, failures that stay where they are, retries;
    calls carry variables, and each item executes the definition that the batch was started with."""
    async with world.serving(PRICED) as app:
        inputs = [{"id": 0}, {"id": 1, "bad": True}, PRICED({"id": 2}, vars={"region": "us"})]
        batch: Batch[Any] = await app.start_batch(PRICED, inputs, concurrency=2, id="f")
        items = await ended(batch)
        assert [item.result for item in items] == [
            {"cents": 0, "region": "eu"}, None, {"cents": 20, "region": "us"},
        ]  # fmt: skip
        assert isinstance(items[1].error, RunFailed)
        assert "step cents failed after 1 attempt: ValueError: no price for 1" in str(items[1].error)
        assert (await world.row(items[0].run)).code == PRICED.hash
        assert await batch.wait("60s") is Status.FAILED
        again = await batch.retry()
        assert [(item.index, item.status) for item in await ended(again)] == [(1, Status.FAILED)]
        same = await app.start_batch(PRICED, inputs, id="f")
        assert same.id == batch.id


async def test_an_input_that_does_not_fit_the_flow_starts_nothing(world: World) -> None:
    """Promise: the index of the input and the path in it are named, and there is no run."""
    app = world.app(PRICED)
    with pytest.raises(
        InvalidItem, match=r"input 3: flow priced: input\.id: .*minimum.* Nothing was started"
    ) as caught:
        await app.start_batch(PRICED, [{"id": number} for number in (1, 2, 3, -4)], id="f")
    assert caught.value.index == 3
    with pytest.raises(RunNotFound):
        await app.batch("f")


async def test_lives_of_a_batch_begin_from_memory(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: the journal of a batch is not read again for each of its chunks: with many of them that would be the
    square of the work."""
    monkeypatch.setattr("holdfast.client.batches.CHUNK_ITEMS", 4)
    opened: list[str] = []
    inner = Engine._open_cold

    def noted(self: Engine, row: RunRow, *args: Any) -> Any:
        opened.append(row.id)
        return inner(self, row, *args)

    monkeypatch.setattr(Engine, "_open_cold", noted)
    async with world.serving(*WORKFLOWS) as app:
        batch = await app.start_batch(sell, (Order(number + 20) for number in range(40)), concurrency=3, id="b")
        assert (await batch.result("60s")).completed == 40
        journal = [event.type async for event in (await app.get("b")).follow()]
    assert journal.count("continued") == 9
    assert opened.count("b") <= 1
