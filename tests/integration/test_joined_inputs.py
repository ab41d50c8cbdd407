"""`debounce=` and `collect`: many starts, one run."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from holdfast import App, Signal, Status, sync, workflow
from holdfast.client.client_run import ClientRun
from holdfast.errors import InvalidDuration, InvalidInput
from holdfast.testing import Sim
from tests.support.world import World

PATIENCE = 60.0
go = Signal[bool]("go")


@workflow
async def index(doc: str, revision: int = 0) -> str:
    return f"{doc} {revision}"


@workflow
async def held(doc: str) -> str:
    await go.wait()
    return doc


@workflow
async def load(rows: list[dict[str, Any]], table: str = "t") -> list[int]:
    return [row["n"] for row in rows]


def test_the_last_input_wins() -> None:
    """Promise: a burst of starts is one run with the last input, which begins when the burst is over; the next start
    makes a new one."""
    with Sim() as sim:
        first = sim.start(index("a", 1), unique="a", debounce="30s")
        for revision in (2, 3):
            sim.advance("20s")
            assert sim.start(index("a", revision), unique="a", debounce="30s").id == first.id
        sim.advance("29s")
        assert first.status() is Status.PENDING
        sim.advance("1s")
        assert first.result() == "a 3"
        assert sim.start(index("a", 4), unique="a", debounce="30s").id != first.id


def test_a_run_begins_after_max_wait_at_the_latest() -> None:
    with Sim() as sim:
        run = sim.start(index("a", 0), unique="a", debounce="30s", max_wait="1m")
        for revision in (1, 2):
            sim.advance("20s")
            sim.start(index("a", revision), unique="a", debounce="30s", max_wait="1m")
        sim.advance("20s")
        assert run.result() == "a 2"


def test_a_message_does_not_begin_it_sooner() -> None:
    """Promise: a signal is kept for it, and the inputs after it still count."""
    with Sim() as sim:
        run = sim.start(held("a"), unique="a", debounce="30s")
        run.signal(go, True)
        sim.advance("20s")
        assert sim.start(held("b"), unique="a", debounce="30s").id == run.id
        sim.advance("29s")
        assert run.status() is Status.PENDING
        sim.advance("1s")
        assert run.result() == "b"


def test_the_next_run_of_a_value_begins_after_the_one_before() -> None:
    """Promise: two runs of a value never run at the same time; starts meanwhile join the one that waits."""
    with Sim() as sim:
        first = sim.start(held("a"), unique="a", debounce="1s")
        sim.advance("2s")
        second = sim.start(held("b"), unique="a", debounce="1s")
        assert sim.start(held("c"), unique="a", debounce="1s").id == second.id != first.id
        sim.advance("1h")
        assert second.status() is Status.PENDING
        for run, result in ((first, "a"), (second, "c")):
            run.signal(go, True)
            assert run.result() == result


def test_a_paused_run_keeps_its_inputs() -> None:
    """Promise: paused before it began, and resumed, it has the last input."""
    with Sim() as sim:
        run = sim.start(index("a", 1), unique="a", debounce="30s")
        sim.start(index("a", 2), unique="a", debounce="30s")
        run.pause("stock-taking")
        sim.start(index("a", 3), unique="a", debounce="30s")
        sim.advance("1h")
        run.resume()
        sim.advance("1m")
        assert run.result() == "a 3"


async def test_every_store_keeps_the_last_input(world: World) -> None:
    """Promise: all callers get one run, and its retry has the same input."""
    app = world.app(index)
    async with world.worker(app):
        runs = [await app.start(index("a", n), unique="a", debounce="300ms") for n in range(5)]
        assert len({run.id for run in runs}) == 1
        assert [isinstance(run, ClientRun) and run.is_new for run in runs] == [True, False, False, False, False]
        assert await runs[0].result(timeout=PATIENCE) == "a 4"
        again = await runs[0].retry()
        assert await again.result(timeout=PATIENCE) == "a 4"


async def test_collected_items_are_one_run(world: World) -> None:
    """Promise: in the order of the calls, at most `most` in a run; none is lost, none is there twice."""
    app = world.app(load)
    async with world.worker(app):
        given = [await app.collect(load, {"n": n}, into="rows", within="400ms", most=4) for n in range(10)]
        runs = list({run.id: run for run in given}.values())
        results = [await run.result(timeout=PATIENCE) for run in runs]
        assert [n for result in results for n in result] == list(range(10))
        assert max(map(len, results)) <= 4
        again = await runs[0].retry()
        assert await again.result(timeout=PATIENCE) == results[0]


async def test_concurrent_calls_lose_no_item(world: World) -> None:
    app = world.app(load)
    async with world.worker(app):
        calls = [app.collect(load, {"n": n}, into="rows", within="200ms", most=7) for n in range(40)]
        runs = {run.id: run for run in await asyncio.gather(*calls)}
        found = [n for run in runs.values() for n in await run.result(timeout=PATIENCE)]
        assert sorted(found) == list(range(40))


def test_different_values_are_collected_apart() -> None:
    with sync.App("memory://", workflows=[load]) as app:
        first, second, third = (app.collect(load, {"n": 1}, into="rows", unique=who) for who in ("a", "b", "a"))
        assert first.id == third.id != second.id


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"debounce": "30s"}, "needs unique="),
        ({"unique": "u", "max_wait": "1m"}, "max_wait= is for debounce="),
        ({"unique": "u", "debounce": "0s"}, "debounce='0s'"),
        ({"unique": "u", "debounce": "1m", "max_wait": "30s"}, "shorter than debounce"),
        ({"unique": "u", "debounce": "1m", "id": "x"}, "id="),
        ({"unique": "u", "debounce": "1m", "key": "x"}, "key="),
        ({"unique": "u", "debounce": "1m", "delay": "1s"}, "delay="),
        ({"unique": "u", "debounce": "1m", "if_exists": "replace"}, "if_exists="),
        ({"unique": "u", "debounce": "soon"}, "debounce"),
        ({"unique": "", "debounce": "1m"}, "unique"),
    ],
)
async def test_what_cannot_be_debounced_is_refused(options: dict[str, Any], words: str) -> None:
    async with App("memory://", workflows=[index]) as app:
        with pytest.raises((InvalidInput, InvalidDuration), match=words):
            await app.start(index("a"), **options)
        assert [view async for view in app.runs()] == []


@pytest.mark.parametrize(
    ("item", "options", "words"),
    [
        ({}, {"into": "row"}, "no such parameter. It has: rows, table"),
        ("x", {"into": "table"}, "table"),
        ({}, {"into": "rows", "most": 0}, "most=0"),
        ({}, {"into": "rows", "most": True}, "most=True"),
        ({}, {"into": "rows", "most": 10_001}, "between 1 and 10,000"),
        ({}, {"into": "rows", "within": timedelta(0)}, "within"),
        ({"n": "x" * 200_000}, {"into": "rows"}, "blob"),
        (object(), {"into": "rows"}, "rows"),
    ],
)
async def test_what_cannot_be_collected_is_refused(item: Any, options: dict[str, Any], words: str) -> None:
    async with App("memory://", workflows=[load]) as app:
        with pytest.raises(Exception, match=words) as refused:
            await app.collect(load, item, **options)
        assert isinstance(refused.value, (InvalidInput, InvalidDuration, ValueError, TypeError))
        assert [view async for view in app.runs()] == []
