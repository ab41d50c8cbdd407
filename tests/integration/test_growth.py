"""A long run, and a journal that does not grow forever: snapshots, compaction, and what must not change."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from datetime import timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from holdfast import App, Run, Signal, Status, continue_as, step, workflow
from holdfast.adapters.memory.store import MemoryStore
from holdfast.core import events as e
from holdfast.core.entry import say
from holdfast.core.fold import fold
from holdfast.core.snapshot import Snapshot
from holdfast.core.timeline import timeline
from holdfast.core.turn import Row, decode_rows, is_compacted
from holdfast.ports.store import Store
from holdfast.turn.source import load, read_journals
from holdfast.upkeep.compaction import compact
from tests.support.faults import FaultyStore
from tests.support.world import World

go = Signal[str]("go")
effects: Counter[int] = Counter()
LARGE = 200_000
SMALL: dict[str, Any] = {"snapshot_every": 20, "compact_after": None, "step_limit": None}


@pytest.fixture(autouse=True)
def forget() -> None:
    effects.clear()


@step
async def count(number: int, size: int = 0) -> str:
    effects[number] += 1
    return f"{number}" + "x" * size


@workflow
async def lengthy(steps: int, size: int = 0) -> int:
    total = sum([len(await count(number, size)) for number in range(steps)])
    word = await go.wait()
    return total + len(await count(steps)) + len(word)


@workflow
async def twice(first: int, second: int) -> str:
    for number in range(first):
        await count(number)
    await go.wait()
    for number in range(second):
        await count(number)
    return await go.wait()


@workflow
async def listening(times: int) -> int:
    return len([await go.wait() for _ in range(times)])


@workflow
async def rounds(left: int) -> str:
    for number in range(20):
        await count(left * 100 + number)
    if left:
        continue_as(rounds(left - 1))
    return await go.wait()


@workflow
async def falling(steps: int) -> int:
    for number in range(steps):
        await count(number)
    if effects[-1] == 0:
        effects[-1] += 1
        raise ValueError("once")
    return steps


async def rows_of(store: Store, run: str) -> list[Row]:
    row = await store.get(run)
    assert row is not None
    return list((await store.read({row.no: 1}))[row.no])


async def number_of(store: Store, run: str) -> int:
    row = await store.get(run)
    assert row is not None
    return row.no


async def is_parked(run: Run[Any]) -> bool:
    view = await run.view()
    return [x.kind for x in view.doing.now] == ["signal"] and view.available_at is None


async def parked(world: World, app: App, call: Any, run_id: str = "r") -> None:
    """A run that has done all its steps and waits, its snapshots made, its worker gone."""
    async with world.worker(app) as worker:
        run = await app.start(call, id=run_id)
        await world.until(lambda: is_parked(run))
        await world.until(lambda: not worker.engine.sessions and worker.engine.snapshots.is_idle)


async def resumed(world: World, app: App, run_id: str = "r") -> Any:
    """What the run ends with, in the hands of a worker that never saw it."""
    async with world.worker(app):
        run: Run[Any] = await app.get(run_id)
        await run.signal(go, "on")
        return await run.result("30s")


EXPECTED = sum(len(str(number)) for number in range(60)) + 2 + 2


# -- snapshots ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("stepflow.J6", "stepflow.R16")
async def test_a_run_is_resumed_from_its_snapshot_and_the_rows_after_it(world: World) -> None:
    """Promise: no row that the snapshot covers is read again, nothing is done twice, and the result is the same. What
    it is resumed with equals the fold of the whole journal, in every field."""
    await parked(world, world.app(lengthy, **SMALL), lengthy(60))
    no = await number_of(world.store, "r")
    covered = (await world.store.snapshots([no]))[no].ordinal
    journals = await read_journals(world.store, {no: covered}, long=1)
    assert journals[no].snapshot is not None
    resumes_with = (await load(world.store, no, "r", journals[no])).run
    assert resumes_with == fold("r", decode_rows(await rows_of(world.store, "r")))
    faulty = FaultyStore(world.store)
    wanted: list[int] = []

    async def note(name: str, args: tuple[Any, ...]) -> None:
        if name == "read":
            wanted.extend(args[0].values())

    faulty.before = note
    app = App(workflows=[lengthy], store=faulty.store, **SMALL)
    assert await resumed(world, app) == EXPECTED
    assert wanted == [covered]
    assert covered > 20
    assert set(effects.values()) == {1}


@pytest.mark.spec("vectorbea.V10")
async def test_deleting_every_snapshot_changes_nothing_but_speed(world: World) -> None:
    """Promise: the same commands, the same result, the same journal."""
    app = world.app(lengthy, **SMALL)
    await parked(world, app, lengthy(60))
    before = await rows_of(world.store, "r")
    assert await world.store.drop_snapshots() == 1
    assert await rows_of(world.store, "r") == before
    assert await resumed(world, world.app(lengthy, **SMALL)) == EXPECTED
    assert set(effects.values()) == {1}


@pytest.mark.spec("stepflow.R16")
@pytest.mark.parametrize("body", [b"", b"garbage", b"0" * 16 + b'{"fold":{},"segments":[]}'])
async def test_a_snapshot_that_does_not_hold_is_ignored_and_reported(
    world: World, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise: the journal is read instead; the log says so, and the snapshot is gone."""
    await parked(world, world.app(lengthy, **SMALL), lengthy(60))
    no, rows = await number_of(world.store, "r"), await rows_of(world.store, "r")
    assert await world.store.put_snapshot(no, Snapshot(rows[-1].ordinal, rows[-1].checksum, body), {}, ())
    with caplog.at_level(logging.WARNING, "holdfast.worker"):
        assert await resumed(world, world.app(lengthy, **SMALL)) == EXPECTED
    assert "its snapshot cannot be used" in caplog.text
    assert set(effects.values()) == {1}


@pytest.mark.spec("stepflow.R16")
async def test_an_ended_run_needs_no_snapshot(world: World) -> None:
    """Promise: it goes with the end."""
    app = world.app(lengthy, **SMALL)
    await parked(world, app, lengthy(60))
    no = await number_of(world.store, "r")
    async with world.worker(app):
        run = await app.get("r", lengthy)
        await run.signal(go, "on")
        await run.result("30s")

        async def is_gone() -> bool:
            return not await world.store.snapshots([no])

        await world.until(is_gone)


async def test_no_snapshots_are_made_if_none_are_wanted(world: World) -> None:
    """Promise: `snapshot_every=0` makes none."""
    app = world.app(lengthy, snapshot_every=0, step_limit=None)
    await parked(world, app, lengthy(60))
    assert dict(await world.store.snapshots([await number_of(world.store, "r")])) == {}
    assert await resumed(world, app) == EXPECTED


@pytest.mark.parametrize("verb", ["put_snapshot", "snapshots", "compact", "read", "drop_snapshots"])
@pytest.mark.parametrize("mode", ["refused", "answer lost"])
async def test_a_store_that_fails_does_not_disturb_the_run(still: World, verb: str, mode: Any) -> None:
    """Promise: whatever call of a snapshot or compaction fails, the run goes on and ends as it would have."""
    faulty = FaultyStore(still.store)
    faulty.fail(verb, 1, mode=mode)
    app = App(workflows=[lengthy], store=faulty.store, snapshot_every=20, compact_after=30, step_limit=None)
    async with still.worker(app) as worker:
        run = await app.start(lengthy(60), id="r")
        await still.until(lambda: is_parked(run))
        await still.until(lambda: not worker.engine.sessions)
    assert await resumed(still, app) == EXPECTED
    assert set(effects.values()) == {1}
    decode_rows(await rows_of(still.store, "r"))


# -- compaction --------------------------------------------------------------------------------------------------------

COMPACT: dict[str, Any] = {"snapshot_every": 20, "compact_after": 30, "step_limit": None}
MOST_ROWS = 30 + 20  # compacted when a snapshot is made, so a snapshot's distance may be added to `compact_after`


async def is_short(store: Store, run: str) -> bool:
    rows = await rows_of(store, run)
    return is_compacted(rows[0]) and len(rows) <= MOST_ROWS


@pytest.mark.spec("stepflow.J7", "traps.A10")
async def test_a_compacted_run_goes_on(world: World) -> None:
    """Promise: few rows are left, numbering goes on, a worker that never saw it resumes it, and nothing is repeated."""
    app = world.app(lengthy, **COMPACT)
    await parked(world, app, lengthy(60, LARGE if world.kind == "sqlite" else 0))
    assert await is_short(world.store, "r")
    await world.store.drop_snapshots()
    await world.store.collect(timedelta(0))
    last = (await rows_of(world.store, "r"))[-1]
    extra = LARGE * 60 if world.kind == "sqlite" else 0
    assert await resumed(world, world.app(lengthy, **COMPACT)) == EXPECTED + extra
    assert set(effects.values()) == {1}
    rows = await rows_of(world.store, "r")
    assert [row.ordinal for row in rows] == list(range(rows[0].ordinal, last.ordinal + 3))
    assert all(one.seq < other.seq for one, other in pairwise(rows))
    row = await world.store.get("r")
    assert row is not None
    assert row.status is Status.COMPLETED


async def test_a_long_run_is_compacted_while_it_goes(world: World) -> None:
    """Promise: nobody has to ask for it. How soon depends on the machine, that it happens does not."""
    await parked(world, world.app(lengthy, **COMPACT), lengthy(400))
    assert await is_short(world.store, "r")


async def test_a_run_that_parks_while_its_snapshot_is_made_is_looked_at_again(still: World) -> None:
    """Promise: rows written while a snapshot was under way get one of their own, though the run moves no more; and
    nothing of the run is kept in memory for it."""
    faulty = FaultyStore(still.store)
    gate, is_there = asyncio.Event(), asyncio.Event()

    async def wait(name: str, _: tuple[Any, ...]) -> None:
        if name == "put_snapshot":
            is_there.set()
            await gate.wait()

    faulty.before = wait
    app = App(workflows=[twice], store=faulty.store, **COMPACT)
    async with still.worker(app) as worker:
        run = await app.start(twice(25, 35), id="r")
        await still.until_set(is_there)
        await run.signal(go, "on")
        await still.until(lambda: is_parked(run))
        await still.until(lambda: worker.engine.is_quiet and effects[34] == 1)
        gate.set()
        await still.until(lambda: worker.engine.snapshots.is_idle)
        assert await is_short(still.store, "r")
        assert not worker.engine.snapshots._last
        assert not worker.engine.snapshots._left


async def test_a_run_that_parks_often_is_not_snapshotted_each_time(still: World) -> None:
    """Promise: how often depends on how much was written, not on how often a run is given back."""
    faulty = FaultyStore(still.store)
    made: list[int] = []

    async def note(name: str, args: tuple[Any, ...]) -> None:
        if name == "put_snapshot":
            made.append(args[1].ordinal)

    faulty.before = note
    app = App(workflows=[listening], store=faulty.store, **SMALL)
    async with still.worker(app) as worker:
        run = await app.start(listening(30), id="r")
        for number in range(30):
            await still.until(lambda: is_parked(run))
            await run.signal(go, str(number))
        assert await run.result("30s") == 30
        await still.until(lambda: worker.engine.snapshots.is_idle)
    assert 0 < len(made) <= 4
    assert [other - one >= 15 for one, other in pairwise(made)] == [True] * (len(made) - 1)


async def test_a_run_that_begins_anew_for_ever_stays_small(world: World) -> None:
    """Promise: what a `continue_as` left behind is not kept, neither in rows nor in segments."""
    app = world.app(rounds, **COMPACT)
    await parked(world, app, rounds(8))
    assert await is_short(world.store, "r")
    [first, *_] = decode_rows(await rows_of(world.store, "r"))
    [event] = first.events
    assert isinstance(event, e.Compacted)
    assert len(event.segments) <= 2
    assert await resumed(world, world.app(rounds, **COMPACT)) == "on"
    assert set(effects.values()) == {1}


@pytest.mark.spec("traps.A10")
@pytest.mark.parametrize("damage", ["the stand-in", "a segment", "a missing segment"])
async def test_an_unreadable_compaction_pauses_the_run(tmp_path: Any, damage: str) -> None:
    """Promise: paused as undecodable with the reason, nothing executed, other runs unaffected."""
    store = MemoryStore()
    world = World("memory", store, tmp_path, None)
    app = world.app(lengthy, **COMPACT)
    await parked(world, app, lengthy(60))
    await parked(world, app, lengthy(60), "other")
    await store.drop_snapshots()
    no = await number_of(store, "r")
    tables = store._tables
    first = tables.rows[no][0]
    event = decode_rows([first])[0].events[0]
    assert isinstance(event, e.Compacted)
    name = event.segments[0].blob
    if damage == "the stand-in":
        tables.rows[no][0] = msgspec.structs.replace(first, body=first.body.replace(b'"attempts":', b'"attempts":1'))
    elif damage == "a segment":
        tables.blobs[name].data = b"other bytes"
    else:
        del tables.blobs[name]
    effects.clear()
    async with world.worker(world.app(lengthy, **COMPACT)):
        run, other = await app.get("r", lengthy), await app.get("other", lengthy)
        await run.signal(go, "on")

        async def is_paused() -> bool:
            return await run.status() is Status.PAUSED

        await world.until(is_paused)
        assert [x.kind for x in (await run.view()).doing.now] == ["paused"]
        if damage == "the stand-in":
            await other.signal(go, "on")
            assert await other.result("30s") == EXPECTED
    assert effects[0] == 0


async def test_a_cursor_from_before_gets_a_clear_answer(world: World) -> None:
    """Promise: whoever follows from a place that was compacted is told so first, and then what came after."""
    app = world.app(lengthy, **SMALL)
    await parked(world, app, lengthy(60))
    early = (await rows_of(world.store, "r"))[3].seq
    no = await number_of(world.store, "r")
    gone = await compact(world.store, "r", no, 1_000)
    assert gone > 50
    async with world.worker(app):
        run = await app.get("r", lengthy)
        await run.signal(go, "on")
        await run.result("30s")
        seen = [event async for event in run.follow(after=early)]
    assert seen[0].type == "compacted"
    assert seen[0].data["rows"] == gone + 1
    assert seen[-1].type == "completed"
    assert say(timeline(decode_rows(await rows_of(world.store, "r")))[0]) == f"compacted: rows 1 to {gone + 1}"


async def test_an_ended_run_can_be_compacted_and_retried(world: World) -> None:
    """Promise: a retry takes over what was completed, wherever it is kept."""
    app = world.app(falling, **SMALL)
    async with world.worker(app):
        run = await app.start(falling(40), id="f")
        assert await run.wait("30s") is Status.FAILED
        no = await number_of(world.store, "f")
        assert await compact(world.store, "f", no, 1_000) > 30
        again = await run.retry(id="again")
        assert await again.result("30s") == 40
    assert {effects[number] for number in range(40)} == {1}


async def test_compacting_twice_changes_nothing(world: World) -> None:
    """Promise: the second time there is nothing to do."""
    await parked(world, world.app(lengthy, **SMALL), lengthy(60))
    no = await number_of(world.store, "r")
    assert await compact(world.store, "r", no, 1_000) > 50
    before = await rows_of(world.store, "r")
    assert await compact(world.store, "r", no, 1_000) == 0
    assert await rows_of(world.store, "r") == before


async def test_a_paused_run_is_compacted_and_goes_on(world: World) -> None:
    """Promise: whatever its status, the fold that is kept knows it."""
    app = world.app(lengthy, **SMALL)
    await parked(world, app, lengthy(60))
    async with app:
        run = await app.get("r", lengthy)
        await run.pause("for now")
        assert await compact(world.store, "r", await number_of(world.store, "r"), 1_000) > 50
        assert await run.status() is Status.PAUSED
        await run.resume()
    assert await resumed(world, app) == EXPECTED
