"""Batches breadth-first: every item does its first step before any does its second, on every kind of store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast import App, Batch, FlowBuilder, Retry, Signal, Status, saga, sleep, step, workflow
from holdfast.errors import InvalidInput
from tests.integration.batch_shop import ended
from tests.support.world import Kind, World, crash, open_world

nudge = Signal[bool]("nudge")


class Ledger:
    """Which bodies began, in order, how many at a time; and a gate they wait at."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, int]] = []
        self.undone: list[int] = []
        self.now = self.most = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def note(self, name: str, number: int) -> None:
        self.begun.append((name, number))
        self.now += 1
        self.most = max(self.most, self.now)
        await self.gate.wait()
        self.now -= 1

    def items(self, name: str) -> list[int]:
        return [number for begun, number in self.begun if begun == name]


ledger = Ledger()


@pytest.fixture(autouse=True)
def fresh() -> None:
    ledger.__init__()  # type: ignore[misc]


@step
async def first(number: int) -> int:
    await ledger.note("first", number)
    return number


@step(retry=Retry.none)
async def second(number: int) -> int:
    await ledger.note("second", number)
    if number == 6:
        raise ValueError("six")
    return number * 2


@step
async def third(number: int) -> int:
    await ledger.note("third", number)
    return number + 1


@workflow
async def chain(number: int) -> int:
    return await third(await second(await first(number)))


@first.undo
async def back(result: int, number: int) -> None:
    ledger.undone.append(number)


@workflow
async def careful(number: int) -> int:
    async with saga():
        return await second(await first(number))


@workflow
async def both(number: int) -> int:
    return sum(await asyncio.gather(first(number), second(number), naps(number)))


async def naps(number: int) -> int:
    await asyncio.sleep(0.01)
    return await third(number)


@workflow
async def waits(number: int) -> int:
    await first(number)
    await sleep("10ms")
    return await second(number)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """A store on real time."""
    async with open_world(cast("Kind", request.param), tmp_path, virtual=False) as made:
        yield made


def named(name: str, count: int) -> list[tuple[str, int]]:
    return [(name, number) for number in range(count)]


@pytest.mark.spec("stepflow.X9")
async def test_items_are_grouped_by_step(world: World) -> None:
    """Promise: one at a time, in the order of the inputs, all first steps come before all second ones; one that fails
    ends its item only."""
    async with world.serving(chain) as app:
        batch = await app.start_batch(chain, range(8), concurrency=1, order="breadth")
        items = await ended(batch)
        assert [item.result for item in items] == [None if n == 6 else n * 2 + 1 for n in range(8)]
        assert await batch.wait("60s") is Status.FAILED
        assert (await batch.counts()).completed == 7
    thirds = [("third", number * 2) for number in range(8) if number != 6]
    assert ledger.begun == [*named("first", 8), *named("second", 8), *thirds]
    with pytest.raises(InvalidInput, match="order='width'"):
        await app.start_batch(chain, [], order="width")  # type: ignore[arg-type]


@pytest.mark.spec("stepflow.X9")
async def test_at_most_so_many_are_in_work_and_groups_follow_each_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: no more steps run at once than the limit says, those of a workflow that asks for two at a time and
    sleeps meanwhile included; a long batch goes breadth-first in groups."""
    monkeypatch.setattr("holdfast.authoring.batch.batch_inputs.CHUNK_ITEMS", 5)
    async with world.serving(both, waits) as app:
        batch = await app.start_batch(waits, (n for n in range(12) if n != 6), concurrency=3, order="breadth")
        assert [item.result for item in await ended(batch)] == [n * 2 for n in range(12) if n != 6]
        assert ledger.most <= 3
        for group in ({0, 1, 2, 3, 4}, {5, 7, 8, 9, 10}, {11}):
            begun = [(name, number) for name, number in ledger.begun if number in group]
            before = {number for name, number in begun[: begun.index(("second", min(group)))] if name == "first"}
            assert len(group - before) < 3, begun
        pair = await app.start_batch(both, range(5), concurrency=2, order="breadth")
        assert [item.result for item in await ended(pair)] == [4 * n + 1 for n in range(5)]
        assert ledger.most <= 4


async def test_a_flow_is_grouped_by_step_too(world: World) -> None:
    """Promise: breadth-first is the same for a flow's declared steps."""
    f = FlowBuilder("declared")
    one = f.call("one", first, {"number": f.input})
    made = f.build(f.call("two", second, {"number": one}))
    async with world.serving(made) as app:
        batch = await app.start_batch(made, range(5), concurrency=1, order="breadth")
        assert [item.result for item in await ended(batch)] == [0, 2, 4, 6, 8]
    assert ledger.begun == [*named("first", 5), *named("second", 5)]


async def test_what_wakes_a_waiting_item_does_not_put_it_forward(world: World) -> None:
    """Promise: an item that is signalled while it waits for its round takes the signal and goes on waiting."""
    async with world.serving(chain) as app:
        ledger.gate.clear()
        batch = await app.start_batch(chain, range(3), concurrency=1, order="breadth", id="b")
        await world.until(lambda: ledger.items("first") == [0])
        ledger.gate.set()
        ledger.gate.clear()
        await world.until(lambda: ledger.items("first") == [0, 1])
        rows = len(await world.store.history("b/0"))
        await (await app.get("b/0")).signal(nudge, True)

        async def taken() -> bool:
            row = await world.row("b/0")
            return len(await world.store.history("b/0")) > rows and not row.instance

        await world.until(taken)
        assert ledger.items("second") == []
        ledger.gate.set()
        assert [item.result for item in await ended(batch)] == [1, 3, 5]
    assert [name for name, _ in ledger.begun] == ["first"] * 3 + ["second"] * 3 + ["third"] * 3


async def test_a_cancel_reaches_items_that_wait_for_their_round(world: World) -> None:
    """Promise: what waits for its round is cancelled like what runs and undoes what it did; nothing more is started."""
    async with world.serving(careful) as app:
        ledger.gate.clear()
        batch = await app.start_batch(careful, range(4), concurrency=1, order="breadth", id="b")
        for number in range(2):
            await world.until(lambda number=number: number in ledger.items("first"))  # type: ignore[misc]
            if number == 0:
                ledger.gate.set()
                ledger.gate.clear()
        await batch.cancel("enough")
        ledger.gate.set()
        items = await ended(batch)
        assert {item.status for item in items} == {Status.CANCELLED}
        assert await batch.wait("60s") is Status.CANCELLED
        counts = await batch.counts()
        assert (counts.cancelled, counts.pending) == (2, 2)
    assert ledger.items("second") == []
    assert 0 in ledger.undone


async def test_a_crash_in_the_middle_keeps_the_order(world: World) -> None:
    """Promise: after a worker is gone without a word, what it had completed stays, and rounds go on where they were."""
    app = world.app(chain)
    ledger.gate.clear()
    async with world.worker(app, ttl="1s", id="w") as worker:
        batch = await app.start_batch(chain, range(4), concurrency=1, order="breadth", id="b")
        for number in range(3):
            await world.until(lambda number=number: number in ledger.items("first"))  # type: ignore[misc]
            if number < 2:
                ledger.gate.set()
                ledger.gate.clear()
        await crash(worker)
    ledger.gate.set()
    async with world.worker(world.app(chain), ttl="1s", id="w"):
        assert [item.result for item in await ended(batch)] == [1, 3, 5, 7]
    assert ledger.begun[:5] == [*named("first", 3), ("first", 2), ("first", 3)]
    assert [name for name, _ in ledger.begun[5:]] == ["second"] * 4 + ["third"] * 4


async def test_a_worker_that_leaves_gives_waiting_steps_to_the_next_round(world: World) -> None:
    """Promise: a shutdown between two steps does not put an item forward either."""
    app = world.app(chain)
    ledger.gate.clear()
    async with world.worker(app, id="w") as worker:
        batch = await app.start_batch(chain, range(3), concurrency=2, order="breadth", id="b")
        await world.until(lambda: len(ledger.begun) == 2)
        worker.engine.drain()
        ledger.gate.set()
    async with world.worker(world.app(chain), id="w"):
        assert [item.result for item in await ended(batch)] == [1, 3, 5]
    assert ledger.items("first") == [0, 1, 2]
    assert ledger.begun.index(("first", 2)) < ledger.begun.index(("second", 1))


async def between_rounds(world: World, app: App, **options: Any) -> Batch[Any]:
    """A batch `b` whose item 0 waits for its second round while item 1 is in its first step."""
    ledger.gate.clear()
    batch = await app.start_batch(chain, range(3), concurrency=1, order="breadth", id="b", **options)
    await world.until(lambda: ledger.items("first") == [0])
    ledger.gate.set()
    ledger.gate.clear()
    await world.until(lambda: ledger.items("first") == [0, 1])
    return batch


async def test_items_of_a_killed_batch_go_on_by_themselves(world: World) -> None:
    """Promise: nobody waits for a round that nobody will give: what was started is finished, as in any batch."""
    async with world.serving(chain) as app:
        await between_rounds(world, app)
        await (await app.get("b")).kill("enough")
        ledger.gate.set()
        for number in range(2):
            assert await (await app.get(f"b/{number}", chain)).result("60s") == 2 * number + 1
    assert ledger.items("first") == [0, 1], "nothing more was started"


async def test_items_outlive_the_deadline_of_their_batch(still: World) -> None:
    """Promise: a batch whose time is up gives no more rounds, waits for its items as long as its clean-up may take, and
    they go on without it."""
    async with still.serving(chain) as app:
        batch = await between_rounds(still, app, deadline="1h")
        await still.advance("61m")
        ledger.gate.set()
        for number in range(2):
            assert await (await app.get(f"b/{number}", chain)).result("60s") == 2 * number + 1
        assert await batch.wait("60s") is Status.FAILED
    assert ledger.items("first") == [0, 1], "nothing more was started"


async def test_an_item_tried_again_by_itself_is_in_no_rounds(world: World) -> None:
    """Promise: `run.retry()` of an item runs it to its end: it has no parent that could give it rounds."""
    async with world.serving(chain) as app:
        await between_rounds(world, app)
        item = await app.get("b/0", chain)
        await item.kill("by itself, please")
        again = await item.retry()
        ledger.gate.set()
        assert await again.result("60s") == 1
