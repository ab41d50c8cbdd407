"""A run started in the caller's own transaction: there with it, gone with it."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from pathlib import Path
from typing import Any, cast

import apsw
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

import holdfast.sync as hs
from holdfast import App, Conflict, RunNotFound, Status, workflow
from holdfast.errors import InvalidInput, NotAllowedHere
from holdfast.testing.conformance.world import request
from tests.support.postgres import clean_url, server_url
from tests.support.world import World, open_world

DRIVER = server_url  # the same database as the store's, without its schema
NOTES = f"notes_{os.getpid()}"
MAKE, DROP = f"CREATE TABLE {NOTES} (text text)", f"DROP TABLE {NOTES}"
INSERT = f"INSERT INTO {NOTES} VALUES ('a')"  # noqa: S608 - a name of this process
SELECT = f"SELECT text FROM {NOTES}"  # noqa: S608


@workflow
async def greet(name: str) -> str:
    return f"hello {name}"


@workflow
async def other(name: str) -> str:
    return name


async def say(connection: Any, statement: str) -> list[Any]:
    """Runs a statement on whichever connection it is."""
    if isinstance(connection, apsw.Connection):
        return list(cast("Any", connection).execute(statement))
    cursor = await connection.execute(statement)
    return list(await cursor.fetchall()) if cursor.description else []


def alchemy(kind: str = "psycopg") -> str:
    return DRIVER().replace("postgresql://", f"postgresql+{kind}://")


@contextmanager
def table() -> Iterator[None]:
    """A table of the caller's own beside the journal."""
    with psycopg.connect(DRIVER(), autocommit=True) as connection:
        connection.execute(MAKE)
        try:
            yield
        finally:
            connection.execute(DROP)


# -- app.connection() --------------------------------------------------------------------------------------------------


async def test_rows_and_run_are_there_together(shared: World) -> None:
    """Promise: what the block writes and the run it starts become visible with its end, and workers take the run."""
    app = shared.app(greet)
    async with app.connection() as connection:
        await say(connection, MAKE)
        await say(connection, INSERT)
        run = await app.start(greet("ann"), id="joined", connection=connection)
        assert await shared.store.get("joined") is None, "nobody sees it before the commit"
    assert await run.status() is Status.PENDING
    async with shared.worker(app):
        assert await run.result(timeout=30) == "hello ann"
    async with app.connection() as connection:
        assert await say(connection, SELECT) == [("a",)]
        await say(connection, DROP)


async def test_a_block_that_raises_leaves_nothing(shared: World) -> None:
    """Promise: rolled back with it, neither the rows nor the run were ever there; the id is free."""
    app = shared.app(greet)

    async def fail() -> None:
        async with app.connection() as connection:
            await say(connection, MAKE)
            await app.start(greet("ann"), id="never", connection=connection)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    with pytest.raises(RunNotFound):
        await app.get("never")
    again = await app.start(greet("bea"), id="never")
    async with shared.worker(app):
        assert await again.result(timeout=30) == "hello bea"
    async with app.connection() as connection:
        await say(connection, MAKE)
        await say(connection, DROP)


async def test_conflicts_leave_the_transaction_usable(shared: World) -> None:
    """Promise: an id or key that is in use is said at once, also if it was used in this very transaction, and the rest
    of the transaction is kept."""
    app = shared.app(greet, other)
    await app.start(greet("ann"), id="used", key="k0")
    async with app.connection() as connection:
        same = await app.start(greet("ann"), id="used", connection=connection)
        assert same.id == "used"
        with pytest.raises(Conflict, match="is of workflow 'greet'"):
            await app.start(other("ann"), id="used", connection=connection)
        with pytest.raises(Conflict, match="key 'k0'"):
            await app.start(greet("bea"), key="k0", connection=connection)
        first = await app.start(greet("cid"), key="k1", connection=connection)
        second = await app.start(greet("cid"), key="k1", connection=connection)
        assert first.id == second.id
        with pytest.raises(Conflict, match="key 'k1'"):
            await app.start(greet("dan"), key="k1", connection=connection)
    assert await first.status() is Status.PENDING
    assert len([view async for view in app.runs()]) == 2


async def test_a_key_used_in_an_open_transaction_is_waited_for(postgres: World) -> None:
    """Promise: of two transactions that use one key, the second waits for the first and then gets its run."""
    app = postgres.app(greet)
    async with app.connection() as first:
        run = await app.start(greet("ann"), key="k", connection=first)
        waiting = asyncio.create_task(app.start(greet("ann"), key="k"))
        with psycopg.connect(DRIVER(), autocommit=True) as watcher:
            await postgres.until(lambda: bool(watcher.execute(WAITS).fetchall()), "the second waits for the lock")
        assert not waiting.done()
    assert (await waiting).id == run.id


WAITS = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


async def test_a_large_argument_comes_with_the_run(shared: World) -> None:
    """Promise: arguments that are kept as blobs are stored in the same transaction."""
    app = shared.app(greet)
    async with app.connection() as connection:
        run = await app.start(greet("x" * 300_000), connection=connection)
    async with shared.worker(app):
        assert len(await run.result(timeout=30)) == 300_006


# -- the caller's own connections --------------------------------------------------------------------------------------


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("kind", ["blocking", "async", "dict rows", "alchemy", "alchemy session"])
async def test_psycopg_and_sqlalchemy_transactions_are_joined(postgres: World, kind: str, commits: bool) -> None:
    """Promise: the run is there exactly if the caller commits, whichever kind of connection it is; row factories of the
    caller's do not matter."""
    app = postgres.app(greet)
    with table():
        if kind in {"blocking", "dict rows"}:
            factory = psycopg.rows.dict_row if kind == "dict rows" else psycopg.rows.tuple_row
            with psycopg.connect(DRIVER(), row_factory=cast("Any", factory)) as blocking:
                blocking.execute(INSERT)
                run = await app.start(greet("ann"), id="r", connection=blocking)
                assert await postgres.store.get("r") is None
                blocking.commit() if commits else blocking.rollback()
        elif kind == "async":
            async with await psycopg.AsyncConnection.connect(DRIVER()) as joined:
                run = await app.start(greet("ann"), id="r", connection=joined)
                assert await postgres.store.get("r") is None
                await joined.execute(INSERT)
                await (joined.commit() if commits else joined.rollback())
        elif kind == "alchemy":
            engine = create_async_engine(alchemy())
            async with engine.connect() as sa:
                run = await app.start(greet("ann"), id="r", connection=sa)
                await sa.execute(sqlalchemy.text(INSERT))
                assert await postgres.store.get("r") is None
                await (sa.commit() if commits else sa.rollback())
            await engine.dispose()
        else:
            engine = create_async_engine(alchemy())
            async with AsyncSession(engine) as session:
                run = await app.start(greet("ann"), id="r", connection=session)
                await session.execute(sqlalchemy.text(INSERT))
                await (session.commit() if commits else session.rollback())
            await engine.dispose()
        with psycopg.connect(DRIVER()) as check:
            assert len(check.execute(SELECT).fetchall()) == commits
    assert (await postgres.store.get(run.id) is not None) is commits


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("kind", ["connection", "session"])
async def test_blocking_sqlalchemy_is_joined(postgres: World, kind: str, commits: bool) -> None:
    """Promise: the same for SQLAlchemy without an event loop; a connection whose transaction SQLAlchemy has not begun
    yet is one that its commit() commits."""
    app = postgres.app(greet)
    engine = sqlalchemy.create_engine(alchemy())
    with engine.connect() as connection, Session(engine) as session:
        chosen = connection if kind == "connection" else session
        await app.start(greet("ann"), id="r", connection=chosen)
        assert await postgres.store.get("r") is None
        chosen.commit() if commits else chosen.rollback()
    engine.dispose()
    assert (await postgres.store.get("r") is not None) is commits


async def test_a_joined_run_is_taken_after_the_commit_only(postgres: World) -> None:
    """Promise: workers that look all the time find the run when its transaction has committed, and not before."""
    app = postgres.app(greet)
    async with postgres.worker(app) as worker, await psycopg.AsyncConnection.connect(DRIVER()) as joined:
        run = await app.start(greet("ann"), id="r", connection=joined)
        for _ in range(3):
            assert not (await postgres.store.claim(request(worker.row, limit=5))).runs
        await joined.commit()
        assert await run.result(timeout=30) == "hello ann"


# -- refusals ----------------------------------------------------------------------------------------------------------


class Asyncpg:
    """Stands for a connection of another driver."""

    __module__ = "asyncpg.connection"


async def test_connections_that_cannot_be_joined_are_refused(postgres: World, tmp_path: Path) -> None:
    """Promise: each with its reason and the way out, and nothing is written."""
    app = postgres.app(greet)

    async def refused(connection: object, words: str, **options: Any) -> None:
        with pytest.raises(InvalidInput, match=words):
            await app.start(greet("ann"), id="r", connection=connection, **options)

    await refused(Asyncpg(), r"asyncpg.connection.*cannot be joined.*psycopg")
    file_engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'elsewhere.db'}")
    with file_engine.connect() as elsewhere:
        await refused(elsewhere, r"sqlite3.Connection under sqlalchemy")
    file_engine.dispose()
    connection = psycopg.connect(DRIVER(), autocommit=True)
    await refused(connection, "autocommit")
    with connection.transaction():
        await app.start(greet("ann"), id="in-a-block", connection=connection)
    connection.execute("CREATE DATABASE elsewhere")
    try:
        with psycopg.connect(DRIVER().removesuffix("postgres") + "elsewhere") as elsewhere_too:
            await refused(elsewhere_too, r"'elsewhere'.*another one")
    finally:
        connection.execute("DROP DATABASE elsewhere WITH (FORCE)")
    connection.autocommit = False
    with connection.pipeline():
        await refused(connection, r"pipeline mode.*before or after")
    connection.rollback()
    with pytest.raises(psycopg.Error):
        connection.execute("SELECT 1 / 0")
    await refused(connection, "has failed.*Roll back")
    connection.rollback()
    connection.read_only = True
    await refused(connection, "read-only")
    connection.rollback()
    connection.read_only = None
    connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    await refused(connection, "key= in a transaction of isolation 'serializable'", key="k")
    await refused(connection, "unique= in a transaction of isolation 'serializable'", unique="u")
    connection.close()
    await refused(connection, "closed")
    assert [view.id async for view in app.runs()] == ["in-a-block"]


async def test_sessions_that_are_another_one_elsewhere_are_refused(postgres: World) -> None:
    """Promise: of SQLAlchemy's scoped sessions each thread or task has one of its own; whoever gives the registry would
    commit another than the one that was joined. The one of this moment is taken."""
    app = postgres.app(greet)
    engine, blocking = create_async_engine(alchemy()), sqlalchemy.create_engine(alchemy())
    session = async_scoped_session(async_sessionmaker(engine), scopefunc=asyncio.current_task)
    for scoped in (session, scoped_session(sessionmaker(blocking))):
        with pytest.raises(InvalidInput, match=r"scoped_session.*connection=session\(\)"):
            await app.start(greet("ann"), id="r", connection=scoped)
    await app.start(greet("ann"), id="r", connection=session())
    await session.commit()
    assert await postgres.store.get("r") is not None
    await session.remove()
    await engine.dispose()
    blocking.dispose()


async def test_on_sqlite_only_its_own_connection_is_joined(sqlite: World, tmp_path: Path) -> None:
    """Promise: `sqlite3`, other files and blocks that have ended are refused with the reason."""
    sqlite3 = importlib.import_module("sqlite3")  # what is refused
    app = sqlite.app(greet)

    async def refused(connection: object, words: str) -> None:
        with pytest.raises(InvalidInput, match=words):
            await app.start(greet("ann"), id="r", connection=connection)

    elsewhere = sqlite3.connect(tmp_path / "elsewhere.db")
    await refused(elsewhere, "another copy of SQLite.*app.connection")
    elsewhere.close()
    with psycopg.connect(DRIVER()) as server:
        await refused(server, "psycopg.Connection.*cannot be joined.*sqlite:")
    async with app.connection() as connection:
        pass
    await refused(connection, "block has ended")
    assert [view async for view in app.runs()] == []


async def test_memory_has_no_transaction_to_share(tmp_path: Path) -> None:
    """Promise: it says so."""
    async with open_world("memory", tmp_path, virtual=False) as world:
        app = world.app(greet)
        with pytest.raises(InvalidInput, match="memory://"):
            await app.start(greet("ann"), connection=object())
        with pytest.raises(NotAllowedHere, match="memory://"):
            async with app.connection():
                pass


async def test_whoever_holds_the_transaction_does_not_wait_for_itself(sqlite: World) -> None:
    """Promise: on SQLite another write in the block is an error that says so, not a standstill; afterwards it works."""
    app = sqlite.app(greet)
    async with app.connection():
        with pytest.raises(NotAllowedHere, match="connection=…"):
            await app.start(greet("ann"))
    run = await app.start(greet("ann"))
    assert await run.status() is Status.PENDING


async def test_a_borrower_who_commits_by_a_statement_is_told(shared: World) -> None:
    """Promise: by the next verb or at the end of the block; a run that was started after it is not there."""
    app = shared.app(greet)

    async def commits() -> None:
        async with app.connection() as connection:
            with suppress(apsw.ConstraintError):
                await say(connection, "COMMIT")
            await app.start(greet("ann"), id="r", connection=connection)

    with pytest.raises(NotAllowedHere, match="ended by the code"):
        await commits()
    assert await shared.store.get("r") is None
    await app.start(greet("ann"), id="r")


async def test_the_borrower_cannot_commit(postgres: World) -> None:
    """Promise: commit, rollback and close belong to the block; after it the connection leads nowhere."""
    app = postgres.app(greet)
    async with app.connection() as connection:
        for forbidden in (connection.commit, connection.rollback, connection.close):
            with pytest.raises(NotAllowedHere, match="when its block or step ends"):
                await forbidden()
    with pytest.raises(psycopg.OperationalError):
        await connection.execute("SELECT 1")


async def test_a_waiting_borrower_may_give_up(sqlite: World) -> None:
    """Promise: whoever is cancelled while waiting for the transaction leaves no transaction behind."""
    app = sqlite.app(greet)

    async def borrow() -> None:
        async with app.connection():
            raise AssertionError("never granted")

    async with app.connection():
        waiting = asyncio.create_task(borrow(), context=Context())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert await (await app.start(greet("ann"))).status() is Status.PENDING


# -- without an event loop ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_blocking_code_joins_too(kind: str, tmp_path: Path) -> None:
    """Promise: `holdfast.sync` has the same: its own block, and the caller's blocking connections."""
    url = f"sqlite:///{tmp_path / 'sync.db'}" if kind == "sqlite" else clean_url()
    app = hs.App(App(url, workflows=[greet]))
    try:
        with app.connection() as connection:
            app.start(greet("ann"), id="kept", connection=connection)
            if kind == "sqlite":
                with pytest.raises(NotAllowedHere):
                    app.start(greet("ann"), id="stuck")

        def fail() -> None:
            with app.connection() as connection:
                app.start(greet("ann"), id="never", connection=connection)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        if kind == "postgres":
            with psycopg.connect(DRIVER()) as own:
                app.start(greet("ann"), id="own", connection=own)
        with pytest.raises(InvalidInput, match="event loop of yours"):
            app.start(greet("ann"), connection=psycopg.AsyncConnection.__new__(psycopg.AsyncConnection))
        assert {view.id for view in app.runs()} == {"kept"} | ({"own"} if kind == "postgres" else set())
    finally:
        app.close()
