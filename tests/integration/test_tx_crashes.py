"""Steps with tx=True under stale owners, crashes and lost answers: exactly once."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any, cast

import psycopg
import pytest

from holdfast import App, Signal, current, step, transaction, workflow
from holdfast.ports.transactions import OpenTransaction
from tests.integration.tx_notes import (
    DELETE,
    MAKE,
    SELECT,
    noted,
    prepare,
    quick,
    write,
    write_blocking,
)
from tests.support.postgres import clean_url, server_port, server_url
from tests.support.proxy import Proxy
from tests.support.world import World, crash, types


@pytest.fixture
async def shared(shared: World) -> World:
    """A store that can share a transaction, with an empty table beside the journal."""
    await prepare(shared)
    return shared


@pytest.fixture
async def postgres(postgres: World) -> World:
    await prepare(postgres)
    return postgres


async def test_a_stale_owner_commits_nothing(postgres: World) -> None:
    """Promise: a worker that lost the run while its body ran is fenced: its writes are rolled back whole, and those of
    the new owner are there once."""
    bodies: list[str] = []
    taken = asyncio.Event()

    @step(tx=True)
    async def noting() -> str:
        bodies.append("body")
        if len(bodies) == 1:
            await write("stale")
            await taken.wait()
        await write("fresh")
        return "done"

    @workflow
    async def flow() -> str:
        return await noting()

    app = postgres.app(flow)
    run = await app.start(flow())
    async with postgres.worker(app, id="old"):
        await postgres.until(lambda: bool(bodies))
        stolen = await postgres.store.take(run.id, instance="thief", steal=True)
        row = cast("Any", stolen).run
        await postgres.store.release(row.no, epoch=row.epoch, until=postgres.store.clock.now(), inbox_seen=0)
        taken.set()
        assert await run.result(timeout=30) == "done"
    assert await noted(postgres) == ["fresh"]
    assert len(bodies) == 2


async def test_a_crash_before_the_commit_leaves_nothing(shared: World) -> None:
    """Promise: a worker that dies in the body leaves nothing of it; the next one runs the body again, and what it
    writes is there once."""
    bodies: list[int] = []

    @step(tx=True)
    async def noting() -> int:
        bodies.append(1)
        await write(f"try {len(bodies)}")
        if len(bodies) == 1:
            await asyncio.Event().wait()
        return len(bodies)

    @workflow
    async def flow() -> int:
        return await noting()

    app = shared.app(flow)
    run = await app.start(flow())
    async with shared.worker(app, id="one", ttl="2s") as worker:
        await shared.until(lambda: bool(bodies))
        await crash(worker)
    async with shared.worker(app, id="one"):
        assert await run.result(timeout=30) == 2
    assert await noted(shared) == ["try 2"]


async def test_a_commit_whose_answer_was_lost_is_found_out() -> None:
    """Promise: the connection is cut after COMMIT was carried out and before its answer: the journal says that it was,
    each row is there once, and no body runs again."""
    commits = count(1)

    def cuts(data: bytes) -> bool:
        return data.startswith(b"Q") and b"COMMIT\x00" in data and next(commits) % 2 == 0

    bodies: list[int] = []

    @step(tx=True, retry=quick(10))
    async def noting(number: int) -> int:
        bodies.append(number)
        await write(f"n{number:02}")
        return number

    @workflow
    async def flow() -> int:
        return sum([await noting(number) for number in range(10)])

    with Proxy(server_port(), cuts) as proxy:
        url = clean_url("&notices=off").replace(str(server_port()), str(proxy.port))
        app = App(url, workflows=[flow])
        with psycopg.connect(server_url(), autocommit=True) as direct:
            direct.execute(MAKE.encode())
            direct.execute(DELETE.encode())
            async with app.worker(poll="100ms"):
                run = await app.start(flow())
                assert await run.result(timeout=60) == 45
            rows = [text for (text,) in direct.execute(SELECT.encode()).fetchall()]
        assert rows == [f"n{number:02}" for number in range(10)]
        assert proxy.cut >= 4
        assert len(bodies) == 10, "what was committed is never run again"


async def test_a_commit_that_never_arrived_is_done_again() -> None:
    """Promise: COMMIT is swallowed on its way and nothing comes back. The server rolls back, which is found out, and
    the body runs again: its row is there once."""
    armed: list[bool] = []

    def hangs(data: bytes) -> bool:
        return data.startswith(b"Q") and b"COMMIT\x00" in data and bool(armed) and armed.pop()

    @step(tx=True, retry=quick())
    def noting() -> int:
        write_blocking(f"try {current().attempt}")
        return current().attempt

    @workflow
    async def flow() -> int:
        return await asyncio.to_thread(noting)

    with Proxy(server_port(), hangs=hangs) as proxy, psycopg.connect(server_url(), autocommit=True) as direct:
        direct.execute(MAKE.encode())
        direct.execute(DELETE.encode())
        app = App(clean_url("&notices=off").replace(str(server_port()), str(proxy.port)), workflows=[flow])
        async with app.worker(poll="100ms"):
            armed.append(True)  # not before: a new schema is committed too
            assert await (await app.start(flow())).result(timeout=60) == 2
        assert direct.execute(SELECT.encode()).fetchall() == [("try 2",)]
    assert not armed


async def test_a_lost_connection_before_the_commit_runs_the_body_again(postgres: World) -> None:
    """Promise: a connection that is lost in the middle is a failed attempt; nothing of it is kept."""
    tries = count(1)

    @step(tx=True, retry=quick())
    async def noting() -> int:
        number = next(tries)
        await write(f"try {number}")
        if number == 1:
            pid = transaction(psycopg.AsyncConnection).info.backend_pid
            with psycopg.connect(server_url(), autocommit=True) as killer:
                killer.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))
        return number

    @workflow
    async def flow() -> int:
        return await noting()

    async with postgres.serving(flow) as app:
        assert await (await app.start(flow())).result(timeout=30) == 2
    assert await noted(postgres) == ["try 2"]


async def test_a_message_at_the_very_end_does_not_cost_the_transaction(shared: World) -> None:
    """Promise: if the turn would end the run and a signal has come meanwhile, the turn is refused, the signal is read,
    and the same transaction is committed with the next turn: the body does not run again."""
    go = Signal[int]("go")
    bodies: list[int] = []

    @step(tx=True)
    async def noting() -> int:
        bodies.append(1)
        await write("a")
        return 1

    @workflow
    async def flow() -> int:
        return await noting()

    app = shared.app(flow)
    begin = shared.store.transact

    async def after_a_signal(*, is_async: bool) -> OpenTransaction:
        await run.signal(go, 1, id="late")
        return await begin(is_async=is_async)

    shared.store.transact = after_a_signal  # type: ignore[method-assign]
    try:
        run = await app.start(flow())
        async with shared.worker(app):
            assert await run.result(timeout=30) == 1
    finally:
        shared.store.transact = begin  # type: ignore[method-assign]
    assert len(bodies) == 1
    assert await noted(shared) == ["a"]
    assert (await types(run)).count("signal") == 1
