"""What ends the transaction of a step with tx=True early: nothing of it stays."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from itertools import count

import psycopg
import pytest

from holdfast import Retry, StepFailed, step, transaction, workflow
from holdfast.errors import RunCancelled
from tests.integration.tx_notes import (
    noted,
    prepare,
    quick,
    write,
    write_blocking,
)
from tests.support.world import World, events


@pytest.fixture
async def shared(shared: World) -> World:
    """A store that can share a transaction, with an empty table beside the journal."""
    await prepare(shared)
    return shared


@pytest.fixture
async def postgres(postgres: World) -> World:
    await prepare(postgres)
    return postgres


async def test_a_timeout_undoes_what_was_written(shared: World) -> None:
    """Promise: an attempt whose time is up leaves nothing, also if it is a thread that goes on for a while: what it
    writes then is not kept."""
    tries, threads, end = count(1), count(1), threading.Event()

    @step(tx=True, retry=quick(2), timeout="2s")
    async def hangs() -> int:
        number = next(tries)
        await write(f"async {number}")
        if number == 1:
            await asyncio.Event().wait()
        return number

    @step(tx=True, retry=quick(2), timeout="3s")
    def blocks() -> int:
        number = next(threads)
        if number == 1:
            write_blocking("thread 1")
            end.wait(20)
            write_blocking("late")
        end.set()
        write_blocking(f"thread {number}")
        return number

    @workflow
    async def flow() -> list[int]:
        return [await hangs(), await asyncio.to_thread(blocks)]

    async with shared.serving(flow) as app:
        assert await (await app.start(flow())).result(timeout=60) == [2, 2]
    assert await noted(shared) == ["async 2", "thread 2"]


async def test_cancelling_undoes_a_transaction_under_way(postgres: World) -> None:
    """Promise: a cancelled run's open transaction is rolled back; nothing of it is there."""
    written = asyncio.Event()

    @step(tx=True)
    async def hangs() -> None:
        await write("a")
        written.set()
        await asyncio.Event().wait()

    @workflow
    async def flow() -> None:
        await hangs()

    async with postgres.serving(flow) as app:
        run = await app.start(flow())
        await postgres.until_set(written)
        await run.cancel("enough")
        with pytest.raises(RunCancelled):
            await run.result(timeout=30)
    assert await noted(postgres) == []


async def test_a_transaction_that_cannot_commit_is_a_failed_attempt(postgres: World) -> None:
    """Promise: what the database finds only at COMMIT (a deferred constraint) fails the attempt like an error in the
    body: recorded, retried, and never half there."""
    tries = count(1)

    @step(tx=True, retry=quick())
    async def twice() -> int:
        number = next(tries)
        await write("same")
        if number < 3:
            await write("same")
        return number

    @workflow
    async def flow() -> int:
        return await twice()

    async with postgres.serving(flow) as app:
        run = await app.start(flow())
        assert await run.result(timeout=30) == 3
    assert await noted(postgres) == ["same"]
    failures = [event for event in await events(run) if event.type == "attempt_failed"]
    assert len(failures) == 2


async def test_an_error_the_body_swallowed_is_not_forgotten(postgres: World) -> None:
    """Promise: PostgreSQL keeps nothing of a transaction in which a statement failed, so the step fails too, whatever
    its body returned."""

    @step(tx=True, retry=Retry.none)
    async def swallows() -> str:
        await write("a")
        with suppress(psycopg.Error):
            await transaction(psycopg.AsyncConnection).execute("SELECT 1 / 0")
        return "done"

    @workflow
    async def flow() -> str:
        try:
            return await swallows()
        except StepFailed as failed:
            return failed.type

    async with postgres.serving(flow) as app:
        assert await (await app.start(flow())).result(timeout=30) == "psycopg.errors.InFailedSqlTransaction"
    assert await noted(postgres) == []


@pytest.mark.parametrize("said", [[b"COMMIT"], [b"COMMIT", b"BEGIN"], [b"ROLLBACK", b"BEGIN"]])
async def test_a_body_that_ends_its_transaction_fails_for_good(postgres: World, said: list[bytes]) -> None:
    """Promise: a COMMIT or ROLLBACK as SQL in the body fails the step, whatever its policy: another attempt would write
    once more what the database let the first one commit. The error says what to use instead."""
    attempts = count()

    @step(tx=True, retry=quick())
    async def ends_it() -> None:
        next(attempts)
        await write("a")
        for statement in said:
            await transaction(psycopg.AsyncConnection).execute(statement)

    @workflow
    async def flow() -> str:
        try:
            await ends_it()
        except StepFailed as failed:
            return str(failed)
        return "nobody noticed"

    async with postgres.serving(flow) as app:
        error = await (await app.start(flow())).result(timeout=30)
    assert "ended by the code that borrowed it" in error
    assert await noted(postgres) == ["a"] * (said[0] == b"COMMIT")
    assert next(attempts) == 1
