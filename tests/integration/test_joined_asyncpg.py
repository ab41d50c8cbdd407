"""Starts and signals in the caller's transaction on asyncpg, itself or under SQLAlchemy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

import holdfast.sync as hs
from holdfast import App, Conflict, RunFinished, Signal, workflow
from holdfast.errors import InvalidInput, StoreRefused, StoreUnavailable
from tests.support.postgres import server_url
from tests.support.world import World, open_world

approved = Signal[bool]("approved")


@workflow(accepts=(approved,))
async def approve(doc: str) -> str:
    return f"{doc}: {await approved.wait()}"


@pytest.fixture
async def postgres(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world("postgres", tmp_path, virtual=False) as world:
        yield world


@pytest.fixture
async def db() -> AsyncIterator[Any]:
    connection = await asyncpg.connect(server_url())
    await connection.execute("CREATE TEMP TABLE notes (text text)")
    yield connection
    if not connection.is_closed():
        await connection.close()


def alchemy() -> str:
    return server_url().replace("postgresql://", "postgresql+asyncpg://")


async def end(transaction: Any, *, commits: bool) -> None:
    await (transaction.commit() if commits else transaction.rollback())


@pytest.mark.parametrize("commits", [True, False])
async def test_a_start_and_a_signal_come_with_the_callers_rows(postgres: World, db: Any, commits: bool) -> None:
    """Promise: run, signal and rows are there if and only if the caller commits; what a codec of the caller's does to
    JSON does not matter, nor do large arguments; workers are told by `app.wake()`."""
    app, heard = postgres.app(approve), list[str]()
    await db.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    there = await app.start(approve("there"), id="there")
    unsubscribe = postgres.store.subscribe(heard.append)
    transaction = db.transaction()
    await transaction.start()
    await db.execute("INSERT INTO notes VALUES ('a')")
    run = await app.start(approve("d" * 300_000), id="d", connection=db, attributes={"kind": "large"})
    await run.signal(approved, True, id="m", connection=db)
    await there.signal(approved, False, connection=db)
    assert await postgres.store.get("d") is None
    assert not {"d", "there"} & set(heard)
    await end(transaction, commits=commits)
    app.wake()
    assert {"d", "there"} <= set(heard)
    unsubscribe()
    assert await db.fetchval("SELECT count(*) FROM notes") == commits
    assert (await postgres.store.get("d") is not None) is commits
    assert len(await there.messages()) == commits
    if commits:
        async with postgres.worker(app):
            assert await run.result(timeout="60s") == "d" * 300_000 + ": True"
            assert await there.result(timeout="60s") == "there: False"


async def test_what_is_refused_leaves_the_transaction_usable(postgres: World, db: Any) -> None:
    """Promise: an id that means something else, a run that has ended and a role without rights are said at once; what
    came before and comes after in the transaction is kept."""
    app = postgres.app(approve)
    ended = await app.start(approve("ended"), id="ended")
    await ended.kill("gone")
    async with db.transaction():
        await db.execute("INSERT INTO notes VALUES ('before')")
        with pytest.raises(Conflict):
            await app.start(approve("another"), id="ended", connection=db)
        with pytest.raises(RunFinished):
            await ended.signal(approved, True, connection=db)
        await db.execute("SET LOCAL ROLE pg_monitor")
        with pytest.raises(StoreRefused):
            await app.start(approve("x"), id="x", connection=db)
        await db.execute("RESET ROLE")
        kept = await app.start(approve("kept"), id="kept", connection=db, signal=(approved, True))
        again = await app.start(approve("kept"), id="kept", connection=db)
        assert again.id == kept.id
    assert await db.fetchval("SELECT count(*) FROM notes") == 1
    async with postgres.worker(app):
        assert await kept.result(timeout="60s") == "kept: True"


async def test_connections_that_cannot_be_joined_are_refused(postgres: World, db: Any) -> None:
    """Promise: each with its reason and the way out, and nothing is written."""
    app = postgres.app(approve)

    async def refused(connection: object, words: str, **options: Any) -> None:
        with pytest.raises(InvalidInput, match=words):
            await app.start(approve("d"), id="d", connection=connection, **options)

    await refused(db, r"no transaction open.*connection\.transaction\(\)")
    async with db.transaction(readonly=True):
        await refused(db, "read-only")
    async with db.transaction(isolation="serializable"):
        await refused(db, "key= in a transaction of isolation 'serializable'", key="k")
    broken = db.transaction()
    await broken.start()
    with pytest.raises(asyncpg.DivisionByZeroError):
        await db.execute("SELECT 1 / 0")
    await refused(db, "has failed.*Roll back")
    await broken.rollback()
    async with db.transaction():
        holder = await asyncpg.connect(server_url())
        await holder.execute("SELECT pg_advisory_lock(210021)")
        waiting = asyncio.create_task(db.execute("SELECT pg_advisory_xact_lock(210021)"))
        await asyncio.sleep(0)  # it is sent now
        await refused(db, "middle of another statement")
        await holder.close()
        await waiting
    await db.execute("CREATE DATABASE elsewhere_asyncpg")
    try:
        elsewhere = await asyncpg.connect(server_url().removesuffix("postgres") + "elsewhere_asyncpg")
        async with elsewhere.transaction():
            await refused(elsewhere, r"'elsewhere_asyncpg'.*cannot span both")
        await elsewhere.close()
    finally:
        await db.execute("DROP DATABASE elsewhere_asyncpg WITH (FORCE)")
    async with asyncpg.create_pool(server_url(), min_size=1, max_size=1) as pool:
        await refused(pool, r"asyncpg\.pool\.Pool.*cannot be joined")
        async with pool.acquire() as lent, lent.transaction():
            await app.start(approve("lent"), id="lent", connection=lent)
        await refused(lent, r"given back to its pool.*pool\.acquire")
    await db.close()
    await refused(db, "closed")
    assert [view.id async for view in app.runs()] == ["lent"]


async def test_a_connection_that_is_lost_is_named(postgres: World, db: Any) -> None:
    """Promise: a server that hung up is a typed error of the store."""
    app, transaction = postgres.app(approve), db.transaction()
    await transaction.start()
    killer = await asyncpg.connect(server_url())
    await killer.execute("SELECT pg_terminate_backend($1)", db.get_server_pid())
    await killer.close()
    with pytest.raises((StoreUnavailable, InvalidInput), match=r"no answer|closed|no transaction"):
        await app.start(approve("d"), id="d", connection=db)
    assert await postgres.store.get("d") is None


@pytest.mark.parametrize("commits", [True, False])
async def test_sqlalchemy_on_asyncpg_is_joined(postgres: World, commits: bool) -> None:
    """Promise: also if the start is the first that the session does, and workers are told after its commit."""
    app, heard = postgres.app(approve), list[str]()
    engine = create_async_engine(alchemy())
    unsubscribe = postgres.store.subscribe(heard.append)
    async with AsyncSession(engine) as session:
        run = await app.start(approve("d"), id="d", connection=session)
        await session.execute(sqlalchemy.text("CREATE TEMP TABLE notes (text text) ON COMMIT DROP"))
        await run.signal(approved, True, connection=session)
        assert "d" not in heard
        assert await postgres.store.get("d") is None
        await end(session, commits=commits)
    async with engine.connect() as connection:
        await app.start(approve("e"), id="e", connection=connection)
        await end(connection, commits=commits)
    unsubscribe()
    await engine.dispose()
    assert ("d" in heard) or not commits
    assert [await postgres.store.get(name) is not None for name in "de"] == [commits, commits]
    if commits:
        async with postgres.worker(app):
            assert await run.result(timeout="60s") == "d: True"


async def test_blocking_code_is_refused_what_belongs_to_a_loop(db: Any, tmp_path: Path) -> None:
    app = hs.App(f"sqlite:///{tmp_path / 'x.db'}", workflows=[approve])
    with pytest.raises(InvalidInput, match="event loop of yours"):
        app.start(approve("d"), connection=db)
    app.close()


async def test_sqlite_does_not_take_it(db: Any, tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path / 'x.db'}", workflows=[approve])
    async with app:
        with pytest.raises(InvalidInput, match=r"asyncpg\.connection\.Connection"):
            await app.start(approve("d"), connection=db)
