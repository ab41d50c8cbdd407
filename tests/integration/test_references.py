"""A `BlobRef` on its way through the API: who has it can read the blob, however long that takes."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from holdfast import BlobRef, Retry, Signal, continue_as, get_blob, put_blob, start, step, workflow
from holdfast.adapters.memory.store import MemoryStore
from holdfast.client.batches import start_batch
from holdfast.client.exports import export_journal, import_journal
from holdfast.client.start_options import StartOptions
from holdfast.client.verification import verify_run
from holdfast.testing import Sim
from holdfast.testing.virtual_loop import at_once
from holdfast.upkeep.compaction import compact

DATA = b"a large picture"
given = Signal[BlobRef]("given")
go = Signal[bool]("go")


@step
async def store() -> BlobRef:
    return await put_blob(DATA)


@step
async def store_list() -> BlobRef:
    """A blob that refers to another one."""
    return await put_blob([msgspec.to_builtins(await put_blob(DATA))])


@step
async def read(ref: BlobRef) -> str:
    found = await get_blob(ref)
    if ref.kind == "json":
        found = await get_blob(BlobRef(**found[0]))
    return bytes(found).decode()


@workflow
async def makes() -> BlobRef:
    return await store()


@workflow
async def makes_list() -> BlobRef:
    return await store_list()


@workflow
async def waits(ref: BlobRef) -> str:
    await go.wait()
    return await read(ref)


@workflow
async def starts(ref: BlobRef) -> None:
    start(waits(ref), id="child")


@workflow
async def listens() -> str:
    ref = await given.wait()
    await go.wait()
    return await read(ref)


@workflow
async def continues(ref: BlobRef, left: int) -> str:
    if left:
        continue_as(continues(ref, left - 1))
    await go.wait()
    return await read(ref)


broken: list[str] = []


@step(retry=Retry.none)
async def check() -> None:
    if broken:
        raise ValueError(broken.pop())


@workflow
async def fails_once() -> str:
    ref = await store()
    await check()
    await go.wait()
    return await read(ref)


def sweep(sim: Sim, *gone: str) -> None:
    """The runs that made the blob are removed, and everything loose is collected."""
    sim.advance("400d")
    assert at_once(sim.store.remove(gone, timedelta(days=30))).trees == len(gone)
    for _ in range(3):
        sim.advance("2d")
        at_once(sim.store.collect(timedelta(days=1)))


@pytest.fixture
def refs(sim: Sim) -> list[BlobRef]:
    """Of a blob, and of one that refers to another; their runs have ended."""
    sim.serve(makes, makes_list, waits, starts, listens, continues)
    return [sim.start(makes(), id="maker").result(), sim.start(makes_list(), id="lister").result()]


@pytest.mark.parametrize("number", [0, 1])
def test_arguments_keep_their_blob(sim: Sim, refs: list[BlobRef], number: int) -> None:
    """Promise: those of a run, of a run that another starts, and of one that continues."""
    runs = [sim.start(waits(refs[number])), sim.start(continues(refs[number], 3))]
    sim.start(starts(refs[number]), id="parent").wait()
    runs.append(sim.get("child", waits))
    sweep(sim, "maker", "lister")
    for run in runs:
        run.signal(go, True)
        assert run.result() == DATA.decode()


def test_a_signal_keeps_its_blob(sim: Sim, refs: list[BlobRef]) -> None:
    """Promise: before it is taken in and afterwards, also when the turns before are compacted."""
    run = sim.start(listens())
    run.signal(given, refs[0])
    sim.advance("1s")
    row = at_once(sim.store.get(run.id))
    assert row is not None
    assert asyncio.run(compact(sim.store, run.id, row.no, row.next_ordinal)) > 0
    sweep(sim, "maker", "lister")
    run.signal(go, True)
    assert run.result() == DATA.decode()


def test_a_retry_keeps_what_the_original_refers_to(sim: Sim) -> None:
    """Promise: when the original is gone, too."""
    broken.append("once")
    first = sim.start(fails_once(), id="first")
    first.wait()
    again = first.retry(id="again")
    sweep(sim, "first")
    again.signal(go, True)
    assert again.result() == DATA.decode()


def test_inputs_of_a_batch_keep_their_blobs(sim: Sim, refs: list[BlobRef]) -> None:
    """Promise: also those of items that have not been started, whose inputs are JSON in the JSON of a chunk."""
    batch = sim.call(start_batch(sim._client, waits, refs, concurrency=1, order="depth", how=StartOptions(id="batch")))  # pyright: ignore[reportPrivateUsage]
    sweep(sim, "maker", "lister")
    for number in range(2):
        sim.get(f"batch/{number}", waits).signal(go, True)
        sim.advance("1s")
    assert [item.result for item in sim.call(_items(batch))] == [DATA.decode()] * 2


async def _items(batch: Any) -> list[Any]:
    return [item async for item in batch.items()]


def test_an_exported_run_brings_what_its_blobs_refer_to(sim: Sim, refs: list[BlobRef]) -> None:
    """Promise: in the store that imports it they are kept as in the one it came from, and everything holds there."""
    sim.start(waits(refs[1]), id="r")
    data = at_once(export_journal(sim.store, "r"))
    other = MemoryStore(sim.store.clock)
    assert at_once(import_journal(other, data, "r.json")) == ["r"]
    row, name = at_once(other.get("r")), refs[1].name
    assert row is not None
    contents = at_once(other.contents(row.no))
    assert contents is not None
    held = at_once(sim.store.blob_references([name]))
    assert contents.references == {name, *held[name]}
    assert at_once(other.blob_references([name])) == held
    assert at_once(verify_run(other, row)).problems == ()
    assert at_once(export_journal(other, "r")).count(b'"root":"r"') == data.count(b'"root":"r"') > 1
