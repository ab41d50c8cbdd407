"""`@resource`, blobs of steps, and what a body may ask of its worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from random import random as chance  # a builtin method: it has no module
from typing import Any

import pytest

from holdfast import (
    App,
    BlobRef,
    HoldfastError,
    NotInRun,
    RunFailed,
    StepFailed,
    get_blob,
    heartbeat,
    put_blob,
    resource,
    step,
    workflow,
)
from holdfast.errors import DefinitionError
from tests.support.faults import FaultyStore
from tests.support.world import World

said: list[str] = []


@pytest.fixture(autouse=True)
def _quiet() -> None:
    said.clear()


@resource
async def pool() -> AsyncIterator[dict[str, int]]:
    said.append("pool opened")
    yield {"size": 3}
    said.append("pool closed")


@resource
def lamp() -> Iterator[str]:
    said.append("lamp opened")
    yield "light"
    said.append("lamp closed")


@resource
async def hidden() -> AsyncIterator[str]:
    said.append("hidden opened")
    yield "found"


def helper() -> str:
    return lamp()


@step
async def size() -> int:
    return pool()["size"] + int(chance() * 0)


@step
def shine() -> str:
    return helper()


@workflow
async def inner() -> str:
    return await asyncio.to_thread(shine)


@workflow
async def outer() -> tuple[int, str]:
    return await size(), await inner()


@workflow
async def alone() -> int:
    return await size() + await size()


async def test_resources_are_opened_once_and_closed_in_reverse(world: World) -> None:
    """Promise: a worker opens what its steps name, through helpers and children, once, and closes in reverse."""
    async with world.serving(outer, inner) as app:
        assert sorted(said) == ["lamp opened", "pool opened"]
        opened = list(said)
        for _ in range(3):
            assert await (await app.start(outer())).result("60s") == (3, "light")
        assert said == opened
    assert said[2:] == [text.replace("opened", "closed") for text in reversed(opened)]


async def test_each_worker_opens_its_own(world: World) -> None:
    """Promise: once per worker; another worker, or the next one, opens it again."""
    app = world.app(alone)
    async with world.worker(app), world.worker(app):
        assert said == ["pool opened"] * 2
    async with world.worker(app):
        assert said.count("pool opened") == 3
    assert said.count("pool closed") == 3


async def test_a_resource_nobody_names_is_given_to_the_app(world: World) -> None:
    """Promise: what cannot be found by reading the code is an error that names the cure, and the cure works."""
    reach: dict[str, Any] = {"it": hidden}

    @step(retry=1)
    async def look() -> str:
        return str(reach["it"]())

    @workflow
    async def work() -> str:
        return await look()

    async with world.serving(work) as app:
        with pytest.raises(RunFailed, match=r"hidden.*App\(resources=\[…\]\)"):
            await (await app.start(work())).result("60s")
    async with world.serving(work, resources=[hidden]) as app:
        assert await (await app.start(work())).result("60s") == "found"
    assert said == ["hidden opened"]


async def test_a_resource_is_replaced_in_tests(world: World) -> None:
    """Promise: with `app.replace` the real one is never opened."""
    app = world.app(alone)
    app.replace(pool, {"size": 20})
    async with world.worker(app):
        assert await (await app.start(alone())).result("60s") == 40
    assert said == []


async def test_a_resource_in_the_wrong_place_says_where_it_belongs(world: World) -> None:
    """Promise: not in a workflow body, not outside a run, and only on a generator."""

    @workflow
    async def work() -> int:
        return pool()["size"]

    async with world.serving(work) as app:
        with pytest.raises(RunFailed, match="Ask for it in a step"):
            await (await app.start(work())).result("60s")
    with pytest.raises(NotInRun, match="resource pool"):
        pool()
    with pytest.raises(DefinitionError, match=r"test_resources\.py:\d+: @resource decorates a generator"):
        resource(helper)  # type: ignore[arg-type]
    assert repr(pool).startswith("<resource pool (")


async def test_a_failing_teardown_keeps_nobody_from_closing(world: World) -> None:
    """Promise: every resource is closed whatever the others do; the error is raised once all is released."""

    @resource
    def breaks() -> Iterator[int]:
        yield 1
        raise OSError("cannot close")

    app = world.app(alone, resources=[pool, breaks, lamp])

    async def serve() -> None:
        async with world.worker(app):
            assert await (await app.start(alone())).result("60s") == 6

    with pytest.raises(OSError, match="cannot close"):
        await serve()
    assert said == ["pool opened", "lamp opened", "lamp closed", "pool closed"]
    assert [worker.is_live for worker in await world.store.workers()] == [False]


async def test_a_worker_that_cannot_start_closes_what_it_opened(world: World) -> None:
    """Promise: whether a later resource or the store fails, nothing stays open."""

    @resource
    async def broken() -> AsyncIterator[int]:
        raise OSError("no route")
        yield 1

    @resource
    def empty() -> Iterator[int]:
        if said:
            return
        yield 1

    faulty = FaultyStore(world.store)
    faulty.fail("register", 1)
    apps = {
        "no route": world.app(alone, resources=[pool, broken]),
        "resource empty did not yield": world.app(alone, resources=[pool, empty]),
        "injected": App(workflows=[alone], store=faulty.store),
    }
    for error, app in apps.items():
        said.clear()
        with pytest.raises((OSError, HoldfastError), match=error):
            await world.worker(app).__aenter__()
        assert said == ["pool opened", "pool closed"]


async def test_a_steps_own_blobs(world: World) -> None:
    """Promise: bytes come back as bytes, plain values as values; the reference is small and travels like any value."""

    @step
    async def keep() -> list[BlobRef]:
        return [await put_blob(b"\x00\xff" * 1000), await put_blob({"rows": list(range(1000))}), await put_blob(b"")]

    @step
    async def read(refs: list[BlobRef]) -> list[int]:
        raw, value, nothing = [await get_blob(ref) for ref in refs]
        assert isinstance(raw, bytes)
        return [len(raw), sum(value["rows"]), len(nothing)]

    @workflow
    async def work() -> list[int]:
        return await read(await keep())

    async with world.serving(work) as app:
        assert await (await app.start(work())).result("60s") == [2000, 499_500, 0]


async def test_blobs_and_heartbeats_belong_into_steps(world: World) -> None:
    """Promise: in a workflow, and outside a run, they are refused with the reason."""

    @workflow
    async def keeps() -> None:
        await put_blob(b"x")

    @workflow
    async def beats() -> None:
        heartbeat(1)

    async with world.serving(keeps, beats) as app:
        for call in (keeps(), beats()):
            with pytest.raises(RunFailed, match="is for the body of a step"):
                await (await app.start(call)).result("60s")
    with pytest.raises(NotInRun, match="put_blob"):
        await put_blob(b"x")
    with pytest.raises(NotInRun, match="heartbeat"):
        heartbeat()


async def test_a_blob_that_is_not_there(world: World) -> None:
    """Promise: a reference to nothing fails the step by the name of the blob."""

    @step(retry=1)
    async def read() -> Any:
        return await get_blob(BlobRef("0" * 64, 1, "bytes"))

    @workflow
    async def work() -> str:
        try:
            await read()
        except StepFailed as error:
            return error.type
        return ""

    async with world.serving(work) as app:
        assert (await (await app.start(work())).result("60s")).endswith("BlobNotFound")


@step(executor="process")
def lights() -> str:
    return lamp()


@step(executor="process")
def beats_elsewhere() -> None:
    heartbeat(1)


async def test_a_process_of_its_own_has_no_worker(world: World) -> None:
    """Promise: a body in its own process that asks for the worker's things fails at once, and is told why."""

    @workflow
    async def work() -> list[str]:
        said: list[str] = []
        for one in (lights, beats_elsewhere):
            try:
                await asyncio.to_thread(one)
            except StepFailed as error:
                said.append(f"{error.attempts} {error.message}")
        return said

    async with world.serving(work) as app:
        first, second = await (await app.start(work())).result("60s")
    assert first.startswith("1 <resource lamp")
    assert second.startswith("1 heartbeat() needs the worker")
