"""Starts a run, or sends to one, in the caller's transaction: which connections are accepted, and which statements run.

The statements are written once, as a script that yields statements and is sent their rows. Small functions run it, one
for each kind of connection: psycopg's two and asyncpg's. SQLAlchemy and asyncpg are never imported: a caller that
passes one of their objects has imported them already, and the object is recognised by its methods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from typing import Any, TypeAlias, TypeGuard, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import tuple_row

from holdfast.adapters.postgres import statements as sql
from holdfast.adapters.postgres import wire
from holdfast.adapters.postgres.after_commit import Home, is_of, wake_after_commit
from holdfast.adapters.postgres.asyncpg_connection import AsyncpgConnection, check_asyncpg, fetch, is_asyncpg
from holdfast.adapters.postgres.creation import NewEntry, creation_of, delivery_of, sent_as, woken_by
from holdfast.adapters.postgres.problems import is_lost, translated
from holdfast.adapters.postgres.statements import Texts
from holdfast.errors import InvalidInput
from holdfast.ports.inbox import Delivery, Message, kept_message
from holdfast.ports.runs import Creation

T = TypeVar("T")
Question: TypeAlias = tuple[str, Sequence[Any]]
Script: TypeAlias = Generator[Question, list[Any], T]
Ours: TypeAlias = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]
Joined: TypeAlias = Ours | AsyncpgConnection

HOW = (
    "Give the connection of your own open transaction in the app's database: psycopg.Connection, "
    "psycopg.AsyncConnection, asyncpg.Connection, SQLAlchemy's Connection, AsyncConnection, Session or AsyncSession on "
    "psycopg or asyncpg (postgresql+psycopg://…, postgresql+asyncpg://…), or Django's connection on psycopg 3"
)

HAS_FAILED = "connection= is in a transaction that has failed: it can only be rolled back. Roll back and begin again."


async def create(connection: object, entry: NewEntry, home: Home) -> Creation:
    """Makes the run in the caller's transaction."""
    started = entry.new.started
    by = "key" if started.key else "unique" if entry.new.unique else ""
    rows = await _within(connection, sql.CREATE, (home.moments.wall(), sent_as([entry]), False, None), home, by)
    wake_after_commit(connection, woken_by(rows[0]), home)
    return creation_of(rows[0], is_again=False)


async def send(connection: object, message: Message, home: Home) -> Delivery:
    """Sends to a run in the caller's transaction."""
    sent = wire.encoded_json([wire.message(message)])
    ((words,),) = await _within(connection, sql.SEND, (home.moments.wall(), sent), home)
    wake_after_commit(connection, [message.run], home)
    return delivery_of(words[0])


async def sent(connection: object, run: str, id: str, home: Home) -> Message | None:
    """What a run was sent under an id, read in the caller's transaction."""
    rows = await _within(connection, sql.SENT, (run, id), home)
    return next((kept_message(*row) for row in rows), None)


async def _within(connection: object, statement: str, values: Sequence[Any], home: Home, by: str = "") -> list[Any]:
    """The rows of one of our statements. `by`: what the run is found by besides its id."""
    joined = await _driver_connection(connection)
    script = _under_savepoint(statement, values, home, by)
    if not isinstance(joined, psycopg.Connection | psycopg.AsyncConnection):
        check_asyncpg(joined)
        return await _play_asyncpg(joined, script, home.texts)
    _check_state(joined)
    if isinstance(joined, psycopg.AsyncConnection):
        return await _play_async(joined, script, home.texts)
    return await asyncio.to_thread(_play, joined, script, home.texts)


def _under_savepoint(statement: str, values: Sequence[Any], home: Home, by: str) -> Script[list[Any]]:
    try:
        yield sql.SAVEPOINT, ()
    except psycopg.Error as error:
        raise translated(error) from error
    try:
        (found,) = yield sql.IDENTITY, ()
        _check_place(found, by, home)
        rows = yield statement, values
    except Exception as error:
        if not is_lost(error):
            yield sql.UNDO, ()
        if isinstance(error, psycopg.Error):
            raise translated(error) from error
        raise
    yield sql.KEEP, ()
    return rows


# -- players -----------------------------------------------------------------------------------------------------------


def _play(connection: psycopg.Connection[Any], script: Script[T], texts: Texts) -> T:
    with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
        try:
            statement, values = next(script)
            while True:
                try:
                    cursor.execute(texts[statement], values or None, binary=True)
                    rows = cursor.fetchall() if cursor.description else []
                except psycopg.Error as error:
                    statement, values = script.throw(error)
                else:
                    statement, values = script.send(rows)
        except StopIteration as end:
            result: T = end.value
            return result


async def _play_async(connection: psycopg.AsyncConnection[Any], script: Script[T], texts: Texts) -> T:
    async with psycopg.AsyncCursor(connection, row_factory=tuple_row) as cursor:
        try:
            statement, values = next(script)
            while True:
                try:
                    await cursor.execute(texts[statement], values or None, binary=True)
                    rows = await cursor.fetchall() if cursor.description else []
                except psycopg.Error as error:
                    statement, values = script.throw(error)
                else:
                    statement, values = script.send(rows)
        except StopIteration as end:
            result: T = end.value
            return result


async def _play_asyncpg(connection: AsyncpgConnection, script: Script[T], texts: Texts) -> T:
    try:
        statement, values = next(script)
        while True:
            try:
                rows = await fetch(connection, texts[statement], values)
            except pg.InFailedSqlTransaction:  # asyncpg does not say it before
                raise InvalidInput(HAS_FAILED) from None
            except (psycopg.Error, InvalidInput) as error:
                statement, values = script.throw(error)
            else:
                statement, values = script.send(rows)
    except StopIteration as end:
        result: T = end.value
        return result


# -- which connections are taken ---------------------------------------------------------------------------------------


async def _driver_connection(given: Any) -> Joined:
    """The driver's connection inside the given object. A SQLAlchemy object has begun its transaction afterwards."""
    found: Any = given
    if is_of(given, "sqlalchemy"):
        found = await _alchemy_connection(given)
    elif is_of(given, "django"):
        found = _django_connection(given)
    if is_asyncpg(found) or _is_ours(found):
        return found
    via = "" if found is given else f" under {_kind(given)}"
    raise InvalidInput(f"connection= is a {_kind(found)}{via}, whose transaction cannot be joined. {HOW}.")


async def _alchemy_connection(given: Any) -> Any:
    """The driver's connection inside a SQLAlchemy object. Begins its transaction, since otherwise its commit() would
    have nothing to commit."""
    found: Any = given
    if hasattr(found, "registry"):  # async_scoped_session, scoped_session
        raise InvalidInput(
            f"connection= is a {_kind(found)}, which holds a different session in each thread or task. Give the "
            "current one, and commit that: connection=session()."
        )
    if hasattr(found, "sync_session"):  # AsyncSession
        found = await found.connection()
    elif not hasattr(found, "exec_driver_sql") and hasattr(found, "connection"):  # Session
        found = await asyncio.to_thread(found.connection)
    if hasattr(found, "get_raw_connection"):  # AsyncConnection
        if not found.in_transaction():
            await found.begin()
        driver = (await found.get_raw_connection()).driver_connection
        if is_asyncpg(driver) and not driver.is_in_transaction():  # its transaction begins with its first statement
            await found.exec_driver_sql("SELECT")
        return driver
    if hasattr(found, "exec_driver_sql"):  # Connection
        if not found.in_transaction():
            await asyncio.to_thread(found.begin)
        return found.connection.driver_connection
    return found


def _django_connection(given: Any) -> Any:
    """The driver's connection inside one of Django's, which is in a block of `transaction.atomic()`."""
    if getattr(given, "vendor", "") != "postgresql":
        raise InvalidInput(
            f"connection= is Django's connection to {getattr(given, 'vendor', 'another database')}. {HOW}."
        )
    if not given.in_atomic_block:
        raise InvalidInput(
            "connection= is Django's connection outside `with transaction.atomic():`, so there is no transaction to "
            "join. Put the start into that block, or leave connection= out."
        )
    return given.connection


def _check_state(joined: Ours) -> None:
    if joined.closed:
        raise InvalidInput(f"connection= is closed. {HOW}.")
    if joined.pgconn.pipeline_status != PipelineStatus.OFF:
        raise InvalidInput(
            "connection= is in pipeline mode, where answers arrive too late to be used here. Start the run before or "
            "after the block of `connection.pipeline()`."
        )
    status = joined.pgconn.transaction_status
    if status == TransactionStatus.INERROR:
        raise InvalidInput(HAS_FAILED)
    if status == TransactionStatus.ACTIVE:
        raise InvalidInput("connection= is in the middle of another statement. Finish it first.")
    if status == TransactionStatus.IDLE and joined.autocommit:
        raise InvalidInput(
            "connection= is in autocommit and has no transaction open, so there is none to join. Open one "
            "(`with connection.transaction():`), or leave connection= out."
        )


def _check_place(found: Sequence[Any], by: str, home: Home) -> None:
    cluster, oid, name, isolation, read_only = found
    if (cluster, oid) != home.identity[:2]:
        raise InvalidInput(
            f"connection= is in the database {name!r}, but the journal of this app is in {home.url}: one "
            "transaction cannot span both. Keep the journal in the database of your tables, or leave connection= out."
        )
    if read_only == "on":
        raise InvalidInput("connection= is in a read-only transaction. Begin one that may write.")
    if isolation != "read committed" and by:
        raise InvalidInput(
            f"{by}= in a transaction of isolation {isolation!r}: it does not see a run that another one starts under "
            f"the same {by if by == 'key' else 'value'} meanwhile. Use id=, or READ COMMITTED."
        )


def _is_ours(found: Any) -> TypeGuard[Ours]:
    return isinstance(found, psycopg.Connection | psycopg.AsyncConnection)


def _kind(given: object) -> str:
    return f"{type(given).__module__}.{type(given).__qualname__}"
