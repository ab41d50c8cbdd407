"""Instants and durations that no calendar holds: refused by name before anything is written, at every door."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast import App, Retry, RetryAfter, Run, RunFailed, Signal, Status, sleep, step, workflow
from holdfast.errors import InvalidInput
from tests.support.world import Kind, World, open_world

WEST, EAST = timezone(timedelta(hours=-12)), timezone(timedelta(hours=14))
FAR = datetime(9999, 12, 31, 23, 59, 59, tzinfo=WEST)
LONG_AGO = datetime.min.replace(tzinfo=EAST)
NAIVE = datetime(2027, 1, 1)  # noqa: DTZ001 - on purpose
HOSTILE: list[dict[str, Any]] = [
    {"deadline": FAR},
    {"deadline": LONG_AGO},
    {"deadline": NAIVE},
    {"deadline": timedelta.max},
    {"deadline": "8000y"},
    {"delay": "8000y"},
    {"delay": timedelta.max},
    {"delay": 1e15},
]
go = Signal[int]("go")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def still(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """Every store, on a clock that stands still."""
    async with open_world(cast("Kind", request.param), tmp_path, virtual=True) as made:
        yield made


@workflow
async def plain() -> int:
    return 1


@workflow
async def told_to_wait(how: str) -> str:
    try:
        match how:
            case "until far":
                await sleep(until=FAR)
            case "until long ago":
                await sleep(until=LONG_AGO)
            case "until naive":
                await sleep(until=NAIVE)
            case "8000y":
                await sleep("8000y")
            case _:
                await sleep(timedelta.max)
    except InvalidInput as error:
        return type(error).__name__
    return "slept"


async def count(world: World) -> int:
    return sum((await world.store.count()).values())


async def test_a_start_with_such_a_time_is_refused_and_leaves_nothing(still: World) -> None:
    """Promise: a typed error that names the option, no run, and every other run goes on."""
    app = still.app(plain)
    for options in HOSTILE:
        (name,) = options
        with pytest.raises(InvalidInput, match=f"^{name}: "):
            await app.start(plain(), id="bad", **options)
    assert await count(still) == 0
    async with still.worker(app):
        assert await (await app.start(plain(), id="good")).result("60s") == 1


async def test_the_ends_of_the_calendar_are_taken_and_read(still: World) -> None:
    """Promise: what is taken is read: the last instant of the calendar as a deadline, and the first."""
    app = still.app(plain)
    last, first = datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)
    far = await app.start(plain(), deadline=last)
    over = await app.start(plain(), deadline=first)
    assert [(await still.row(x)).deadline for x in (far, over)] == [last, first]
    assert len([view async for view in app.runs()]) == 2
    async with still.worker(app):
        assert await far.result("60s") == 1
        with pytest.raises(RunFailed, match="deadline"):
            await over.result("60s")


@pytest.mark.parametrize("how", ["until far", "until long ago", "until naive", "8000y", "forever"])
async def test_a_sleep_that_never_ends_is_refused_in_the_workflow(still: World, how: str) -> None:
    """Promise: an error that the workflow can catch; the turn goes on."""
    async with still.serving(told_to_wait) as app:
        assert (await (await app.start(told_to_wait(how))).result("60s")).startswith("Invalid")


async def test_limits_that_never_come_are_no_limits(still: World) -> None:
    """Promise: time limits and retries beyond the calendar never come; they break no turn."""

    @step(timeout=timedelta.max, retry=Retry(2, first=timedelta.max, ceiling=timedelta.max))
    async def flaky() -> int:
        raise OSError("again")

    @step
    async def told() -> int:
        raise RetryAfter(timedelta.max)

    @workflow
    async def waits() -> int:
        return await go.wait(timeout=timedelta.max)

    @workflow
    async def retries() -> int:
        return await flaky()

    @workflow
    async def comes_later() -> int:
        return await told()

    async with still.serving(waits, retries, comes_later, cancel_grace=timedelta.max) as app:
        waiting = await app.start(waits())
        stuck = [await app.start(retries()), await app.start(comes_later())]
        await still.until_waiting(waiting, "waiting for signal go")
        for run in stuck:
            await still.until_waiting(cast("Run[Any]", run), "retrying")
        await waiting.signal(go, 7)
        assert await waiting.result(timedelta.max) == 7
        for run in stuck:
            await run.cancel()
            await still.until_status(run, Status.CANCELLED)


async def test_a_child_whose_deadline_never_comes_has_none(still: World) -> None:
    """Promise: the deadline of a workflow may be longer than the calendar has room for."""

    @workflow(deadline=timedelta(days=3_600_000))
    async def child() -> int:
        return 3

    @workflow
    async def parent() -> int:
        return await child()

    async with still.serving(child, parent) as app:
        assert await (await app.start(parent())).result("60s") == 3
        assert await (await app.start(child())).result("60s") == 3


def test_definitions_say_what_is_wrong_with_them() -> None:
    """Promise: what is kept or waited for is bounded where it is declared."""
    for declare in (
        lambda: workflow(keep=timedelta.max)(plain.function),
        lambda: workflow(deadline=timedelta.max)(plain.function),
        lambda: App("sqlite:///:memory:", keep=timedelta.max),
    ):
        with pytest.raises(InvalidInput, match=r"(keep|deadline).*: .*too long"):
            declare()
