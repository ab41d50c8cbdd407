"""The inputs of a batch: where they may come from, what is refused, and that they are never held all at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast import (
    App,
    Batch,
    Conflict,
    RunFailed,
    RunNotFound,
    Status,
)
from holdfast.errors import BlobNotFound, InvalidInput, InvalidItem
from tests.integration.batch_shop import (
    WORKFLOWS,
    Order,
    cents,
    ended,
    inner,
    ledger,
    orders,
    priced,
    sell,
)
from tests.support.faults import FaultyStore
from tests.support.world import Kind, World, open_world


@pytest.fixture(autouse=True)
def fresh() -> None:
    ledger.__init__()  # type: ignore[misc]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """A store on real time."""
    async with open_world(cast("Kind", request.param), tmp_path, virtual=False) as made:
        yield made


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
        await app.start_batch(len, orders(1))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="longer than 200 bytes"):
        await app.start_batch(sell, orders(1), id="x" * 201)
    with pytest.raises(RunNotFound):
        await app.batch("nothing")
    await app.start(sell(Order(1)), id="single")
    with pytest.raises(Conflict, match="not a batch"):
        await app.batch("single")


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
    monkeypatch.setattr("holdfast.authoring.batch.batch_inputs.CHUNK_ITEMS", 2)
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
        assert not worker.engine.beginnings.unanswered
    assert await world.store.get("b") is None
    faulty.before = None
    async with world.serving(*WORKFLOWS) as app:
        assert len(await ended(await app.start_batch(sell, orders(3), id="b"))) == 3


async def test_inputs_are_never_held_all_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: reading inputs holds one chunk of them; what was read before is written."""
    monkeypatch.setattr("holdfast.authoring.batch.batch_inputs.CHUNK_ITEMS", 10)
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
