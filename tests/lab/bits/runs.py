"""The runs of a store in which every table of a run has rows: ended, waiting, asleep, with children,
blobs and compacted rows.

`fill` leaves them where they stand, messages unread. `readings` is what users read of them then, `outcomes` what comes
of them when a worker goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from hashlib import sha256
from typing import Any, TypeAlias

import msgspec

from holdfast import (
    App,
    JournalEvent,
    Retry,
    Run,
    RunVar,
    Signal,
    Status,
    Stream,
    Topic,
    Update,
    current,
    sleep,
    start,
    step,
    workflow,
)
from holdfast.client.stream_reader import read_now
from holdfast.errors import HoldfastError
from holdfast.ports.runs import RunRow
from holdfast.upkeep.compaction import compact
from tests.support.flows import flow

PATIENCE = 20.0
"""Seconds in which every run of a store that is not damaged ends, by far."""

Readings: TypeAlias = dict[str, Any]
Outcomes: TypeAlias = dict[str, tuple[str, Any]]

go = Signal[int]("go")
ask = Update[int, int]("ask")
news = Topic[str]("news")
stage = RunVar[str]("stage")
tokens = Stream[str]("tokens")
whole = RunVar[str]("whole")


@step
async def double(number: int) -> int:
    return number * 2


@step
async def large(letter: str) -> str:
    return letter * 200_000


@step
async def linked(name: str) -> list[str]:
    return [name, "l" * 200_000]


@workflow
async def told(number: int) -> int:
    stage.set("as it was")
    return await double(number)


@workflow
async def waits(number: int) -> int:
    first = await go.wait()
    return first * 1000 + await go.wait() + await double(number)


async def answers(number: int) -> int:
    return number + 1


@workflow
async def asked(number: int) -> int:
    ask.serve(answers)
    return await double(number) + await go.wait()


@step(retry=Retry(2, first="1ms"))
async def says(word: str) -> int:
    tokens.send(word)
    await tokens.flush()
    tokens.send(f"{word} {current().attempt}")
    if current().attempt == 1:
        raise ConnectionError("again")
    return 2


@workflow
async def speaks(word: str) -> int:
    tokens.send("from the workflow")
    return await says(word) + await go.wait()


@workflow
async def listens() -> str:
    return await news.wait()


@workflow
async def naps() -> str:
    await sleep("1200ms")
    return "awake"


@workflow
async def child() -> int:
    return await go.wait()


@workflow(keep="30d")
async def family() -> int:
    return await start(child(), id="child").result()


@workflow
async def aunt() -> int:
    return await start(child(), id="child").result() + 1


@workflow
async def lengthy(letter: str) -> int:
    text = await large(letter)
    whole.set(text)
    for number in range(6):
        await double(number)
    pair = await linked(sha256(msgspec.json.encode(text)).hexdigest())  # a blob that names another
    return len(text) + len(pair[1]) + await go.wait()


doubled = flow(
    "doubled",
    {
        "first": {"wait": {"signal": "go"}},
        "second": {"call": "tests.lab.bits.runs.double", "with": {"number": "${steps.first}"}},
    },
    "${steps.second}",
    brings=(double,),
)

WORKFLOWS: list[Any] = [told, waits, asked, speaks, listens, naps, child, family, aunt, lengthy, doubled]
RUNS = (
    "told",
    "waits",
    "asked",
    "speaks",
    "listens",
    "naps",
    "child",
    "family",
    "aunt",
    "compacted",
    "lengthy",
    "doubled",
    "later",
)


async def fill(url: str) -> None:
    """The runs, each left where it stands when its worker is gone."""
    app = App(url, workflows=WORKFLOWS, snapshot_every=5, compact_after=None)
    async with app, app.worker(id="bits"):
        done = await app.start(told(3), id="told", attributes={"tier": "gold"}, key="k", priority=3)
        await done.result()
        waiting: list[Run[Any]] = [await app.start(waits(4), id="waits", deadline="20h")]
        await _stands(waiting[0], "signal")
        await waiting[0].signal(go, 5, id="m5")
        waiting.append(await app.start(asked(6), id="asked"))
        assert await waiting[1].update(ask, 1, id="q1", timeout="20s") == 2
        waiting += [
            await app.start(speaks("hello"), id="speaks"),
            await app.start(listens(), id="listens"),
            await app.start(doubled({}), id="doubled"),
            await app.start(family(), id="family"),
        ]
        await _until(app, "child", lambda row: row is not None)
        waiting.append(await app.start(aunt(), id="aunt"))
        for name in ("compacted", "lengthy"):
            waiting.append(await app.start(lengthy(name[0]), id=name))
        for run in waiting:
            if run.id not in {"family", "aunt"}:
                await _stands(run, "wait")
        await _until(app, "aunt", lambda row: row is not None and row.next_ordinal > 2)
        await _until(app, "waits", lambda row: row is not None and row.inbox_read == 1)
        store = (await app.client()).store
        row = await store.get("compacted")
        assert row is not None
        assert await compact(store, row.id, row.no, row.next_ordinal - 1)
        assert await store.take_duty("bits", holder="bits", ttl=timedelta(minutes=1))
    async with app:
        await app.start(naps(), id="naps")
    async with app, app.worker(id="bits"):
        await _stands(await app.get("naps"), "sleeping")
    async with app:
        for name, number in (
            ("waits", 7),
            ("asked", 9),
            ("speaks", 11),
            ("child", 40),
            ("compacted", 1),
            ("lengthy", 2),
            ("doubled", 21),
        ):
            await (await app.get(name)).signal(go, number, id=f"m{number}")
        await app.start(told(8), id="later", delay="500ms")


async def _stands(run: Run[Any], words: str) -> None:
    async with asyncio.timeout(20):
        while words not in (await run.view()).waiting:  # noqa: ASYNC110 until it stands there
            await asyncio.sleep(0.005)


async def _until(app: App, run: str, is_so: Callable[[RunRow | None], bool]) -> None:
    store = (await app.client()).store
    async with asyncio.timeout(20):
        while not is_so(await store.get(run)):  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def readings(url: str) -> Readings:
    """What users read of each run before it goes on."""
    found: Readings = {}
    app = App(url, workflows=WORKFLOWS)
    async with app:
        store = (await app.client()).store
        for name in RUNS:
            run: Run[Any] = await app.get(name)
            row = await store.get(name)
            assert row is not None
            columns = (row.workflow, row.version, row.queue, row.priority, row.key, row.parent, row.root, row.deadline)
            times = (row.created_at, row.started_at, row.updated_at, row.ended_at)
            shown = (await run.get(stage), await run.get(whole))
            history = [(event.ordinal, event.type, event.data) async for event in _so_far(run, row.next_ordinal - 1)]
            found[name] = (row.status, columns, times, row.attributes, row.doing, shown, history)
        found["asked"] += (await (await app.get("asked")).update(ask, 1, id="q1", timeout="10s"),)
        heard = await read_now(await app.client(), "speaks", tokens, None, None)
        found["speaks"] += ([(x.value, x.step, x.attempt, x.offset, x.state) for x in heard],)
    return found


async def _so_far(run: Run[Any], last: int) -> AsyncIterator[JournalEvent]:
    async for event in run.follow():
        if event.ordinal <= last:
            yield event
        if event.ordinal >= last:
            return


async def outcomes(url: str, patience: float) -> Outcomes:
    """What comes of the runs when a worker goes on: how each ended, or where it stands when the time is up."""
    app = App(url, workflows=WORKFLOWS)
    found: Outcomes = {}
    async with app, app.worker(id="bits", ttl="3s", poll="50ms"):
        await app.publish(news, "rain")
        until = asyncio.get_running_loop().time() + patience
        for name in RUNS:
            found[name] = await _outcome(app, name, until)
    return found


async def _outcome(app: App, name: str, until: float) -> tuple[str, Any]:
    loop = asyncio.get_running_loop()
    try:
        run: Run[Any] = await app.get(name)
        while True:
            view = await run.view()
            if view.status is Status.PAUSED:
                return "paused", view.waiting
            if view.status.is_terminal:
                return "ended", await run.result(timeout=PATIENCE)
            if loop.time() > until:
                return "open", view.waiting
            await asyncio.sleep(0.02)
    except HoldfastError as error:
        return "refused", f"{type(error).__name__}: {error}"
