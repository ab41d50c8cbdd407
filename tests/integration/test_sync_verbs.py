"""Verbs of `holdfast.sync` that reach beyond the run: blobs from sync steps, messages from sync workflows."""

from __future__ import annotations

from typing import Any

from holdfast import BlobRef
from holdfast.sync import Signal, Topic, get_blob, put_blob, step, workflow
from tests.support.world import World

go = Signal[int]("go")
news = Topic[str]("news")


@step
def keep(size: int) -> BlobRef:
    return put_blob(b"x" * size)


@step
def keep_value(value: list[int]) -> BlobRef:
    return put_blob(value)


@step
def size_of(ref: BlobRef) -> int:
    data: Any = get_blob(ref)
    return len(data)


@workflow
def stores() -> list[int]:
    return [size_of(keep(300_000)), size_of(keep_value([1, 2, 3]))]


@workflow
def waits() -> int:
    return go.wait(timeout="1m")


@workflow
def reads() -> str:
    return news.wait(timeout="1m")


@workflow
def tells(run: str) -> None:
    _ = go.send(run, 7)
    news.publish("hello")


async def test_a_sync_step_keeps_and_reads_blobs(world: World) -> None:
    """Promise: `put_blob` and `get_blob` of holdfast.sync work in the thread of a sync step."""
    async with world.serving(stores) as app:
        assert await (await app.start(stores.call())).result("60s") == [300_000, 3]


async def test_a_sync_workflow_sends_and_publishes(world: World) -> None:
    """Promise: a sync workflow sends to a run and publishes to those who wait, each with its turn."""
    async with world.serving(waits, reads, tells) as app:
        waiting = await app.start(waits.call(), id="waiting")
        reading = await app.start(reads.call())
        await world.until_waiting(reading, "topic news")
        await (await app.start(tells.call("waiting"))).result("60s")
        assert await waiting.result("60s") == 7
        assert await reading.result("60s") == "hello"
