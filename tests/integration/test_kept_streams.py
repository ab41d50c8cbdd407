"""What is kept of streams: `verify` finds nothing wrong with what was not changed, and exports take them along."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from holdfast import App, Retry, Signal, Stream, current, step, workflow
from holdfast.adapters.memory.store import MemoryStore
from holdfast.client.exports import export_journal, import_journal
from holdfast.client.stream_reader import read_now
from holdfast.client.verification import verify_run
from holdfast.core.exported import Exported
from holdfast.errors import CorruptJournal
from holdfast.ports.store import Store
from holdfast.upkeep.compaction import compact
from tests.support.world import Kind, World, open_world

tokens = Stream[str]("tokens")
log = Stream[dict[str, int]]("log")
go = Signal[int]("go")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """A store on real time, of each kind."""
    async with open_world(cast("Kind", request.param), tmp_path, virtual=False) as made:
        yield made


@step(retry=Retry(2, first="1ms"))
async def says(word: str) -> str:
    tokens.send(word)
    await tokens.flush()
    log.send({"attempt": current().attempt})
    tokens.send(f"{word} {current().attempt}")
    if current().attempt == 1:
        raise ConnectionError("again")
    return word


@step(retry=Retry.none)
async def fails() -> None:
    tokens.send("last words")
    raise ValueError("no")


@workflow
async def speaks(is_good: bool) -> str:
    tokens.send("first")
    await says("hello")
    tokens.send("between")
    await go.wait()
    await says("good bye")
    if not is_good:
        await fails()
    return "said"


async def heard(app: App, run: str) -> list[Any]:
    parts = await read_now(await app.client(), run, tokens, None, None)
    return [(part.value, part.step, part.attempt, part.offset, part.state) for part in parts]


async def problems(store: Store, run: str) -> list[str]:
    row = await store.get(run)
    assert row is not None
    return list((await verify_run(store, row)).problems)


async def spoken(world: World, *, is_good: bool = True) -> App:
    """A run of three workers: each step of it has a second attempt."""
    app = world.app(speaks)
    run = await app.start(speaks(is_good), id="r")
    async with app.worker(poll="20ms"):
        while "signal" not in (await run.view()).waiting:  # noqa: ASYNC110 a store
            await asyncio.sleep(0.005)
    assert not await problems(world.store, "r")
    await run.signal(go, 1)
    async with app.worker(poll="20ms"):
        await run.wait()
    return app


async def test_streams_that_nobody_changed_are_verified(world: World) -> None:
    """Contract: of an ended run, of its retry, which sends anew, and of one whose journal was compacted."""
    app = await spoken(world, is_good=False)
    assert not await problems(world.store, "r")
    again = await (await app.get("r")).retry(id="again")
    async with app.worker(poll="20ms"):
        await again.wait()
    assert not await problems(world.store, "again")
    row = await world.store.get("r")
    assert row is not None
    assert await compact(world.store, row.id, row.no, row.next_ordinal - 1)
    assert not await problems(world.store, "r")


async def test_an_export_takes_streams_along(world: World) -> None:
    """Contract: parts, offsets, attempts and what became of them are the same in the other store, and verified."""
    app = await spoken(world)
    data = await export_journal(world.store, "r")
    assert msgspec.json.decode(data)["holdfast_journal"] == 3
    other = MemoryStore()
    assert await import_journal(other, data, "file") == ["r"]
    assert not await problems(other, "r")
    there = App(store=other, workflows=[speaks])
    assert await heard(there, "r") == await heard(app, "r")
    assert len(await heard(app, "r")) == 10
    assert await export_journal(other, "r") != b""
    assert await other.streams_of("r") == {"tokens": 10, "log": 4}


async def test_a_changed_part_of_an_export_is_refused(world: World) -> None:
    """Contract: nothing is imported from a file whose parts were changed."""
    await spoken(world)
    data = await export_journal(world.store, "r")
    other = MemoryStore()
    with pytest.raises(CorruptJournal, match="digest"):
        await import_journal(other, data.replace(b'"hello 2"', b'"hello 3"'), "file")
    assert await other.get("r") is None


async def test_a_run_without_streams_is_exported_as_before(world: World) -> None:
    """Contract: format 2, which older code reads; one imported without its streams has no problem."""
    await spoken(world)
    file = msgspec.json.decode(await export_journal(world.store, "r"), type=Exported)
    assert file.streams
    app = world.app(speaks)
    await app.start(speaks(True), id="later", delay="1h")
    assert msgspec.json.decode(await export_journal(world.store, "later"))["holdfast_journal"] == 2
