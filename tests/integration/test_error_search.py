"""Runs are found by what their error says, on every store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from holdfast import App, Retry, step, workflow
from holdfast.client import run_errors
from holdfast.client.client import Client
from holdfast.errors import InvalidInput
from holdfast.ports.runs import Filter
from tests.support.world import Kind, World, open_world


@step(retry=Retry.none)
async def refuse(why: str) -> None:
    raise ConnectionError(why)


@workflow
async def broken(why: str) -> None:
    await refuse(why)


@workflow
async def fine() -> str:
    return "refused, says the result"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """A store on real time, of each kind."""
    async with open_world(cast("Kind", request.param), tmp_path, virtual=False) as made:
        yield made


async def failed(world: World, *reasons: str) -> App:
    """An app whose runs failed for these reasons, in this order, and one that completed."""
    app = world.app(broken, fine)
    async with app.worker(poll="20ms"):
        for number, why in enumerate(reasons):
            await (await app.start(broken(why), id=f"r{number}")).wait()
        await (await app.start(fine(), id="fine")).wait()
    return app


async def found(app: App, error: str, **more: object) -> list[str]:
    return [view.id async for view in app.runs(error=error, **more)]  # type: ignore[arg-type]


async def test_runs_are_found_by_what_their_error_says(world: World) -> None:
    """Contract: type and whole message, in any case, newest first; the rest of the filter counts too; a result is not
    searched."""
    far = "x" * 300 + " then the Carrier REFUSED\nin line two: straße"
    app = await failed(world, "carrier refused", "out of stock", far)
    assert await found(app, "refused") == ["r2", "r0"]
    assert await found(app, "connectionerror: out") == ["r1"]
    assert await found(app, "STRASSE") == ["r2"]
    assert await found(app, "refused", order="created", limit=1) == ["r0"]
    assert await found(app, "refused", workflow="fine") == []
    assert await found(app, "refused", status="completed") == []
    assert await found(app, "refused", status=["failed", "running"]) == ["r2", "r0"]
    assert await found(app, "") == ["fine", "r2", "r1", "r0"]


async def test_the_reason_of_a_cancel_is_searched_if_cancelled_runs_are_asked_for(world: World) -> None:
    app = world.app(broken, fine)
    run = await app.start(fine(), id="left", delay="1h")
    await run.cancel("customer left")
    async with app.worker(poll="20ms"):
        await run.wait()
    assert await found(app, "customer", status="cancelled") == ["left"]
    assert await found(app, "customer") == []


async def test_one_question_looks_at_a_bounded_number_of_runs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: it says how many it looked at; the cursor continues after exactly those, so nothing is missed and
    nothing comes twice."""
    monkeypatch.setattr(run_errors, "LOOKED", 3)
    app = await failed(world, "b", "a", "b", "b", "a", "a", "a")
    client = await app.client()
    assert [(ids, looked) for ids, looked in [page async for page in pages(client, "error: a", 2)]] == [
        (["r6", "r5"], 2),
        (["r4"], 3),
        (["r1"], 2),
    ]
    assert [looked for _, looked in [page async for page in pages(client, "nothing", 2)]] == [3, 3, 1]


async def pages(client: Client, error: str, limit: int) -> AsyncIterator[tuple[list[str], int]]:
    after = ""
    while True:
        views, after, looked = await client.look(Filter(), after=after, limit=limit, error=error)
        yield [view.id for view in views], looked
        if not after:
            return


async def test_a_text_that_cannot_be_searched_is_refused(world: World) -> None:
    app = world.app(fine)
    with pytest.raises(InvalidInput, match="at most 200"):
        await found(app, "x" * 201)
