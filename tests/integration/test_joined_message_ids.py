"""A message id that one open transaction of a caller uses twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

import holdfast.sync as hs
from holdfast import Conflict, Signal, workflow
from tests.support.postgres import server_url
from tests.support.world import World

go = Signal[int]("go")
text = Signal[str]("text")


@workflow
async def takes() -> list[object]:
    return [await go.wait(), await text.wait()]


class DjangoConnection:
    """What Holdfast uses of Django's connection on psycopg 3."""

    __module__ = "django.db.backends.postgresql.base"
    vendor = "postgresql"
    in_atomic_block = True

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection

    def on_commit(self, told: object) -> None:
        """Nothing is told here: the commit of these tests is the driver's."""


def alchemy(driver: str) -> str:
    return server_url().replace("postgresql://", f"postgresql+{driver}://")


@asynccontextmanager
async def lent(world: World) -> AsyncIterator[Any]:
    async with world.app(takes).connection() as connection:
        yield connection


@asynccontextmanager
async def of_driver(kind: str) -> AsyncIterator[Any]:
    """An open transaction of that kind, which commits at the end."""
    if kind == "asyncpg":
        connection = await asyncpg.connect(server_url())
        async with connection.transaction():
            yield connection
        await connection.close()
    elif kind == "psycopg async":
        async with await psycopg.AsyncConnection.connect(server_url()) as joined:
            yield joined
    else:
        with psycopg.connect(server_url()) as blocking:
            yield DjangoConnection(blocking) if kind == "django" else blocking


@asynccontextmanager
async def of_alchemy(kind: str, driver: str) -> AsyncIterator[Any]:
    """The same of SQLAlchemy."""
    if kind.startswith("async"):
        engine = create_async_engine(alchemy(driver))
        async with AsyncSession(engine) if kind == "async session" else engine.connect() as given:
            yield given
            await given.commit()
        await engine.dispose()
    else:
        blocking = sqlalchemy.create_engine(alchemy(driver))
        with Session(blocking) if kind == "session" else blocking.connect() as chosen:
            yield chosen
            chosen.commit()
        blocking.dispose()


async def use_one_id_twice(world: World, connection: Any) -> None:
    """In one transaction, to a run that is there and to one that the transaction starts."""
    app = world.app(takes)
    there = await app.get("there", takes)
    fresh = await app.start(takes(), id="fresh", signal=(go, 1, "m1"), connection=connection)
    for run in (there, fresh):
        for _ in range(2):
            await run.signal(go, 1, id="m1", connection=connection)
        with pytest.raises(Conflict, match=rf"run {run.id}: id 'm1' was used for signal go with another value.*differ"):
            await run.signal(go, 2, id="m1", connection=connection)
        with pytest.raises(Conflict, match="id 'm1' was used for signal go, so signal text was not sent"):
            await run.signal(text, "1", id="m1", connection=connection)
        with pytest.raises(Conflict, match="so the signal of the start was not sent"):
            await app.start(takes(), id=run.id, signal=(go, 2, "m1"), connection=connection)
        await run.signal(text, "x" * 200_000, id="m2", connection=connection)
        with pytest.raises(Conflict, match="id 'm2' was used for signal text with another value"):
            await run.signal(text, "y" * 200_000, id="m2", connection=connection)


async def check(world: World) -> None:
    """After the commit the runs have the first message of each id, and nothing else."""
    app = world.app(takes)
    for name in ("there", "fresh"):
        run = await app.get(name, takes)
        assert [(message.id, message.name) for message in await run.messages()] == [("m1", "go"), ("m2", "text")]
    async with world.worker(app):
        assert await (await app.get("fresh", takes)).result("60s") == [1, "x" * 200_000]


async def test_in_a_lent_transaction(shared: World) -> None:
    """Promise: another value, name or start under an id that the transaction itself used is a `Conflict` at once; the
    same message is a repeat, and the transaction stays usable."""
    await shared.app(takes).start(takes(), id="there")
    async with lent(shared) as connection:
        await use_one_id_twice(shared, connection)
    await check(shared)


@pytest.mark.parametrize("kind", ["psycopg", "psycopg async", "asyncpg", "django"])
async def test_in_a_transaction_of_a_driver(postgres: World, kind: str) -> None:
    """Promise: the same on the caller's own connections."""
    await postgres.app(takes).start(takes(), id="there")
    async with of_driver(kind) as connection:
        await use_one_id_twice(postgres, connection)
    await check(postgres)


@pytest.mark.parametrize(
    ("kind", "driver"),
    [
        ("connection", "psycopg"),
        ("session", "psycopg"),
        ("async connection", "psycopg"),
        ("async session", "psycopg"),
        ("async connection", "asyncpg"),
        ("async session", "asyncpg"),
    ],
)
async def test_in_a_transaction_of_sqlalchemy(postgres: World, kind: str, driver: str) -> None:
    """Promise: the same under SQLAlchemy."""
    await postgres.app(takes).start(takes(), id="there")
    async with of_alchemy(kind, driver) as connection:
        await use_one_id_twice(postgres, connection)
    await check(postgres)


async def test_an_id_that_was_rolled_back_is_free(shared: World) -> None:
    """Promise: what a transaction sent and did not commit was not sent."""
    run = await shared.app(takes).start(takes(), id="there")

    async def fail() -> None:
        async with lent(shared) as connection:
            await run.signal(go, 1, id="m1", connection=connection)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    async with lent(shared) as connection:
        await run.signal(go, 2, id="m1", connection=connection)
    assert [message.value for message in await run.messages()] == ["2"]


def test_in_blocking_code(tmp_path: Path) -> None:
    """Promise: `holdfast.sync` refuses it too."""
    app = hs.App(f"sqlite:///{tmp_path / 'x.db'}", workflows=[takes])
    try:
        run = app.start(takes(), id="r")
        with app.connection() as connection:
            for _ in range(2):
                run.signal(go, 1, id="m1", connection=connection)
            with pytest.raises(Conflict, match="id 'm1'"):
                run.signal(go, 2, id="m1", connection=connection)
    finally:
        app.close()
