"""A run of a hundred thousand steps: what is kept of it, and how soon it goes on in the hands of another worker."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from holdfast import App, Run, Signal, Status, step, workflow
from holdfast.adapters.memory.store import MemoryStore
from holdfast.adapters.memory.tables import Tables
from holdfast.core import events as e
from holdfast.core.fold import fold
from holdfast.core.turn import Row, checksum, decode_rows, encode_events
from holdfast.upkeep.compaction import compact
from tests.support.faults import FaultyStore
from tests.support.world import World

STEPS = 100_000
go = Signal[str]("go")
done: list[int] = []


@step
async def counted(number: int) -> dict[str, int]:
    done.append(number)
    return {"number": number}


@workflow
async def longest(steps: int) -> int:
    total = sum([(await counted(number))["number"] for number in range(steps)])
    await go.wait()
    return total + (await counted(steps))["number"]


def rows_of(start: Row, steps: int) -> list[Row]:
    """The journal a worker would have written, from the start to the wait after the last step."""
    rows, at = [start], start.at

    def add(*events: e.AnyEvent) -> None:
        previous, body = rows[-1], encode_events(events)
        ordinal, when = previous.ordinal + 1, at + previous.ordinal
        mark = checksum(previous.checksum, ordinal, 1, when, body)
        rows.append(Row(start.run, ordinal, 1, when, start.format, mark, body, start.seq + ordinal))

    def asked(number: int) -> e.StepScheduled:
        key = f"counted:{number}" if number else "counted"
        return e.StepScheduled(key=key, step="counted" if number else "", value=msgspec.Raw(b'{"number":%d}' % number))

    add(e.Claimed(worker="w"), asked(0))
    for number in range(steps):
        outcome = e.StepCompleted(key=asked(number).key, value=msgspec.Raw(b'{"number":%d}' % number))
        waits = e.WaitStarted(key="go", name="go")
        add(outcome, asked(number + 1) if number + 1 < steps else waits)
    add(e.Released(worker="w"))
    return rows


async def parked_store(steps: int) -> MemoryStore:
    """A store with that run, given back and waiting for its signal."""
    store = MemoryStore()
    await App(workflows=[longest], store=store).start(longest(steps), id="long")
    tables: Tables = vars(store)["_tables"]
    [no] = tables.runs
    tables.rows[no] = rows = rows_of(tables.rows[no][0], steps)
    run = fold("long", decode_rows(rows))
    assert [wait.name for wait in run.waits.values()] == ["go"]
    tables.seq = rows[-1].seq
    tables.runs[no] = msgspec.structs.replace(
        tables.runs[no], status=Status.RUNNING, next_ordinal=run.ordinal + 1, epoch=1, available_at=None
    )
    return store


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("kept", ["rows", "a snapshot", "a stand-in"])
async def test_a_hundred_thousand_steps_are_resumed(kept: str, record_property: Callable[[str, object], None]) -> None:
    """Promise: from the claim to the result no step that completed runs again, and however long the run was, what is
    read of its live journal is a handful of rows. (The figure is told, not asserted: it is that of this machine.)"""
    done.clear()
    steps = STEPS if kept == "a snapshot" else STEPS // 10
    store = await parked_store(steps)
    if kept != "rows":
        assert await compact(store, "long", 1, steps + 3) == steps + 1
        if kept == "a stand-in":
            await store.drop_snapshots()
            await store.collect(timedelta(0))
    faulty = FaultyStore(store)
    read: list[int] = []

    async def note(name: str, args: tuple[Any, ...]) -> None:
        if name == "read":
            read.extend(len(rows) for rows in (await store.read(args[0])).values())

    faulty.before = note
    app = App(workflows=[longest], store=faulty.store, step_limit=None)
    async with app, app.worker(ttl="60s", poll="100ms"):
        run: Run[int] = await app.get("long", longest)
        began, processed = time.perf_counter(), time.process_time()
        await run.signal(go, "on")
        assert await run.result("60s") == steps * (steps + 1) // 2
        passed, processor = time.perf_counter() - began, time.process_time() - processed
    assert done == [steps]
    assert read[0] == (2 if kept != "rows" else steps + 3)
    record_property(
        "figure", f"{steps:,} steps resumed from {kept}: {passed:.2f} s, {processor:.2f} s of processor time"
    )


async def test_the_live_journal_of_a_long_run_is_bounded(
    world: World, record_property: Callable[[str, object], None]
) -> None:
    """Promise: whatever its length, a run is compacted as it grows, and never holds more rows than `compact_after` and
    the distance of two snapshots together."""
    done.clear()
    app = world.app(longest, step_limit=None, snapshot_every=50, compact_after=200)
    async with world.worker(app) as worker:
        await app.start(longest(1_500), id="long")
        await world.until(lambda: len(done) == 1_500 and worker.engine.is_quiet and worker.engine.snapshots.is_idle)
    no = (await world.row("long")).no
    rows = len((await world.store.read({no: 1}))[no])
    record_property("figure", f"{world.kind}: 1,500 steps, compacted after 200 rows: {rows} rows left")
    assert rows <= 200 + 75
