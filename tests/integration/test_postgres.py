"""Workflows end to end on PostgreSQL: what matters there beyond the suites every store passes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql as quoting

from holdfast import App, RunCancelled, RunVar, Signal, Status, Topic, step, transaction, workflow
from holdfast.client.verification import verify_run
from holdfast.ports.leases import ClaimRequest, WorkerRow
from holdfast.upkeep.sweep import sweep
from tests.support.postgres import new_schema, server_url
from tests.support.world import World, open_world

go = Signal[str]("go")
news = Topic[str]("news")
progress = RunVar[int]("progress")


@step
async def double(number: int) -> int:
    return number * 2


@workflow
async def child(number: int) -> int:
    return await double(number)


@workflow
async def parent(count: int) -> list[int]:
    return list(await asyncio.gather(*(child(number) for number in range(count))))


@workflow
async def waiting() -> str:
    return await go.wait()


@step
def large(text: str) -> str:
    return text * 100_000


@step(tx=True)
async def written(number: int) -> int:
    await (await transaction(psycopg.AsyncConnection).execute("SELECT 1")).fetchall()
    return number


@workflow
async def everything(text: str) -> tuple[int, int, list[int], str, str]:
    """Something of each kind that a store is asked for."""
    progress.set(1)
    size = len(await asyncio.to_thread(large, text))
    return size, await written(1), await parent(3), await go.wait(), await news.wait()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world("postgres", tmp_path, virtual=False) as made:
        yield made


async def test_children_come_back_in_order(world: World) -> None:
    """Promise: a parent and its children, made and ended in many small transactions, lose nothing."""
    app = world.app(parent, child)
    async with world.worker(app):
        run = await app.start(parent(20))
        assert await run.result(timeout="60s") == [number * 2 for number in range(20)]


async def test_a_signal_from_another_client_wakes_a_parked_run(world: World) -> None:
    """Promise: whoever sends, wherever; the run goes on with what was sent."""
    app, other = world.app(waiting), world.app(waiting)
    async with world.worker(app):
        run = await app.start(waiting(), id="w")
        await (await other.get("w", waiting)).signal(go, "now")
        assert await run.result(timeout="60s") == "now"


async def test_a_waiting_run_is_cancelled(world: World) -> None:
    """Promise: cancel reaches a run that nobody holds."""
    app = world.app(waiting)
    async with world.worker(app):
        run = await app.start(waiting())
        await run.cancel("changed our minds")
        with pytest.raises(RunCancelled):
            await run.result(timeout="60s")


async def test_two_workers_share_the_work(world: World) -> None:
    """Promise: of two workers on one store each run is done once."""
    app, other = world.app(child), world.app(child)
    async with world.worker(app, concurrency=5), world.worker(other, concurrency=5):
        runs = [await app.start(child(number), id=f"c{number}") for number in range(40)]
        assert [await run.result(timeout="60s") for run in runs] == [number * 2 for number in range(40)]
    counts = await world.store.count()
    assert counts[Status.COMPLETED] == 40


@pytest.mark.parametrize(
    "name", ['with "quotes"', "it's", "with%sign", "%s %% %b %(x)s", "{s} $1::text ?", "Großes\nSchema", "select"]
)
async def test_a_schema_may_have_any_name(name: str) -> None:
    """Promise: the name is quoted everywhere: runs, children, blobs, signals, topics, transactions, retention; and two
    schemas of one database know nothing of each other."""
    own = f"{server_url()}?schema={quote(f'{name} {new_schema()}')}"
    app = App(own, workflows=[everything, parent, child], snapshot_every=2, compact_after=2)
    beside = App(server_url(new_schema()), workflows=[everything])
    async with app, beside:
        async with app.worker():
            runs = [await app.start(everything("ab"), key=f"k{number}", attributes={"a": "b"}) for number in range(3)]
            for run in runs:
                await run.signal(go, "now")
            async with asyncio.timeout(60):
                while len(await app.waiting(news)) < len(runs):  # noqa: ASYNC110 nobody tells of it
                    await asyncio.sleep(0.01)
            await app.publish(news, "late")
            results = [await run.result("60s") for run in runs]
        assert results == [(200_000, 1, [0, 2, 4], "now", "late")] * 3
        store, other = (await app.client()).store, (await beside.client()).store
        assert await other.get(runs[0].id) is None
        async with asyncio.timeout(60):
            gone = 0
            while gone < len(runs):  # a tree of which something is just being kept is passed over
                gone += (await sweep(store, timedelta(0), timedelta(0))).removed.trees


class Held:
    """Where the second step waits, and what was done."""

    gate: asyncio.Event
    done: ClassVar[list[str]] = []


@step
async def noted(name: str) -> str:
    Held.done.append(name)
    if name == "second":
        await Held.gate.wait()
    return name


@workflow
async def two_steps() -> list[str]:
    return [await noted("first"), await noted("second")]


async def test_a_holder_of_lost_commits_begins_where_the_store_is(world: World) -> None:
    """Promise (D2, K13): a failover, or a backup, took back the last commits of a run that a worker holds. What it
    writes next is refused, not added to a history that it does not know; the run is given back, taken up again as it
    is stored, and ends. What was lost is done again, as after any crash."""
    Held.gate, Held.done = asyncio.Event(), []
    app = world.app(two_steps)
    async with world.worker(app):
        run = await app.start(two_steps(), id="r")
        await world.until(lambda: Held.done == ["first", "second"])
        assert (await world.row(run)).next_ordinal == 4
        schema = world.store.url.rpartition("schema=")[2].partition("&")[0]
        with psycopg.connect(server_url(), autocommit=True) as server:
            named = quoting.Identifier(schema)
            server.execute(quoting.SQL("DELETE FROM {}.events WHERE ordinal = 3").format(named))
            server.execute(quoting.SQL("UPDATE {}.runs SET next_ordinal = 3").format(named))
        Held.gate.set()
        assert await run.result(timeout="60s") == ["first", "second"]
        assert Held.done == ["first", "second", "first", "second"]
        assert not (await verify_run(world.store, await world.row(run))).problem


async def test_a_look_keeps_no_claim_from_its_run(world: World) -> None:
    """Promise: a worker that asks what is due locks nothing of it. Another that has been granted the run claims it in
    that very moment; passing over the row, it would give the grant back, and the run would go from hand to hand."""
    app = world.app(child)
    run = await app.start(child(1), id="r")
    now = world.store.clock.now()
    served = (("child", ""),)
    row = WorkerRow(instance="i", worker="w", queues=("default",), definitions=served, pid=1, host="h", started_at=now)
    await world.store.register(row, timedelta(seconds=60), takes_over="none")
    schema = world.store.url.rpartition("schema=")[2].partition("&")[0]
    look = """SELECT (run).id FROM {}.claim(NULL, NULL, NULL, 'j', 'v', ARRAY['default'], ARRAY['child'], ARRAY[''], 10,
        NULL, 500, 100, false, '{{}}', '{{}}')"""
    with psycopg.connect(server_url()) as looking:
        found = looking.execute(quoting.SQL(look).format(quoting.Identifier(schema))).fetchall()
        assert (run.id,) in found
        claims = await world.store.claim(ClaimRequest(worker=row, limit=10, max_claims=5, only=(run.id,)))
        assert [taken.id for taken in claims.runs] == [run.id]
