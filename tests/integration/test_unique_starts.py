"""`start(…, unique=VALUE)`: at most one open run per workflow and value, from every door."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from holdfast import App, Conflict, Signal, continue_as, sync, workflow
from holdfast.client.client_run import ClientRun
from holdfast.errors import InvalidInput
from holdfast.testing import Sim
from tests.support import warm
from tests.support.postgres import clean_url
from tests.support.world import World

PATIENCE = 60.0
go = Signal[bool]("go")


@workflow
async def resync(account: str, rounds: int = 0) -> str:
    await go.wait()
    if rounds:
        await continue_as(resync(account, rounds - 1))
    return account


@workflow
async def audit(account: str) -> str:
    await go.wait()
    return account


def is_new(run: Any) -> bool:
    return isinstance(run, ClientRun) and run.is_new


async def test_an_open_run_stands_for_its_value(world: World) -> None:
    """Promise: the same input gives the open run, different input a `Conflict` that names it; `if_exists` decides
    otherwise. Another value, and another workflow, are free. Nothing is started in vain."""
    app = world.app(resync, audit)
    async with app:
        run = await app.start(resync("a"), unique="a")
        assert is_new(run)
        same = await app.start(resync("a"), unique="a")
        assert (same.id, is_new(same)) == (run.id, False)
        with pytest.raises(Conflict, match=rf"unique='a': run {run.id}.*different input.*if_exists") as met:
            await app.start(resync("b"), unique="a")
        assert met.value.run == run.id
        assert (await app.start(resync("b"), unique="a", if_exists="return")).id == run.id
        with pytest.raises(Conflict, match=rf"run {run.id}.*pending.*reject.*nothing was started") as met:
            await app.start(resync("a"), unique="a", if_exists="reject")
        assert met.value.run == run.id
        others = [await app.start(resync("b"), unique="b"), await app.start(audit("a"), unique="a")]
        assert {view.id async for view in app.runs()} == {run.id, *(other.id for other in others)}


async def test_the_value_is_free_when_the_run_has_ended(world: World) -> None:
    """Promise: with a worker that begins runs as they are started; `reject` while it runs, a new run after its end."""
    app = world.app(resync)
    async with world.worker(app):
        run = await app.start(resync("a"), unique="a", if_exists="reject")
        await world.until_waiting(run, "waiting for signal go")
        with pytest.raises(Conflict, match=run.id):
            await app.start(resync("a"), unique="a", if_exists="reject")
        await run.signal(go, True)
        assert await run.result(timeout=PATIENCE) == "a"
        second = await app.start(resync("b"), unique="a", if_exists="reject")
        assert second.id != run.id
        await second.cancel("not needed")
        await second.wait(timeout=PATIENCE)
        third = await app.start(resync("a"), unique="a", if_exists="reject")
        assert third.id not in {run.id, second.id}


async def test_a_run_that_continues_keeps_its_value(world: World) -> None:
    """Promise: `continue_as` is the same run: the value is free after its last round, not before."""
    app = world.app(resync)
    async with world.worker(app):
        run = await app.start(resync("a", 1), unique="a")
        for _ in range(2):
            await world.until_waiting(run, "waiting for signal go")
            with pytest.raises(Conflict, match=run.id):
                await app.start(resync("a"), unique="a", if_exists="reject")
            await run.signal(go, True)
        assert await run.result(timeout=PATIENCE) == "a"
        assert (await app.start(resync("a"), unique="a", if_exists="reject")).id != run.id


async def test_concurrent_starts_make_one_run(world: World) -> None:
    """Promise: of many starts at once in one process one makes the run, also if a worker begins it at once."""
    app = world.app(resync)
    async with world.worker(app):
        runs = await asyncio.gather(*(app.start(resync("a"), unique="a") for _ in range(20)))
        assert Counter(map(is_new, runs)) == {True: 1, False: 19}
        assert len({run.id for run in runs}) == 1


async def test_a_joined_start_keeps_the_rule(tmp_path: Path) -> None:
    """Promise: in the caller's transaction the value is taken when it commits, and free if it rolls back."""
    async with App(f"sqlite:///{tmp_path}/joined.db", workflows=[resync]) as app:

        async def roll_back() -> None:
            async with app.connection() as connection:
                await app.start(resync("a"), unique="a", connection=connection)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await roll_back()
        async with app.connection() as connection:
            run = await app.start(resync("a"), unique="a", connection=connection, if_exists="reject")
        with pytest.raises(Conflict, match=run.id):
            await app.start(resync("a"), unique="a", if_exists="reject")


def test_the_blocking_app_and_the_simulation_keep_the_rule() -> None:
    with sync.App("memory://", workflows=[resync]) as app:
        run = app.start(resync("a"), unique="a")
        with pytest.raises(Conflict, match=run.id):
            app.start(resync("a"), unique="a", if_exists="reject")
    with Sim() as sim:
        simulated = sim.start(resync("a"), unique="a")
        with pytest.raises(Conflict, match=simulated.id):
            sim.start(resync("a"), unique="a", if_exists="reject")
        simulated.signal(go, True)
        assert simulated.result() == "a"
        assert sim.start(resync("a"), unique="a", if_exists="reject").id != simulated.id


@pytest.mark.parametrize("wrong", ["", " a", "a\n", "\0", "x" * 256, 7, b"a", "\ud800"])
async def test_a_wrong_value_is_refused_before_anything_is_written(world: World, wrong: Any) -> None:
    app = world.app(resync)
    async with app:
        with pytest.raises(InvalidInput, match="unique"):
            await app.start(resync("a"), unique=wrong)
        assert [view async for view in app.runs()] == []


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_two_stores_that_race_make_one_run_per_value(tmp_path: Path, kind: str) -> None:
    """Promise: over connections of their own, whose transactions overlap."""
    url = f"sqlite:///{tmp_path}/raced.db" if kind == "sqlite" else clean_url("&notices=off")
    async with App(url, workflows=[resync]) as first, App(url, workflows=[resync]) as second:
        for count in range(30):
            runs = await asyncio.gather(*(app.start(resync("a"), unique=f"u{count}") for app in (first, second)))
            assert len({run.id for run in runs}) == 1
            assert sorted(map(is_new, runs)) == [False, True]


def test_two_processes_that_race_make_one_run_per_value(tmp_path: Path) -> None:
    """Promise: two processes that start the same values on one SQLite file at once make one run of each, and both are
    given that run."""
    url = f"sqlite:///{tmp_path}/raced.db"

    async def lay_down() -> None:
        async with App(url, workflows=[resync]):
            pass

    asyncio.run(lay_down())
    command = [sys.executable, "-m", "tests.integration.unique_starter", url]
    processes = [
        warm.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers: list[dict[str, tuple[str, bool]]] = [
        json.loads(each.communicate(timeout=PATIENCE)[0]) for each in processes
    ]
    first, second = answers
    assert first.keys() == second.keys()
    for value in first:
        assert first[value][0] == second[value][0]
        assert sorted((first[value][1], second[value][1])) == [False, True]
