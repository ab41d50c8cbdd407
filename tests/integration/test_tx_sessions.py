"""SQLAlchemy's sessions in steps with `tx=True`: `transaction(AsyncSession)` and `transaction(Session)`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from holdfast import Retry, StepFailed, current, step, transaction, workflow
from holdfast.errors import RunFailed
from tests.support.postgres import server_url
from tests.support.world import World, open_world

TABLE = f"notes_of_sessions_{os.getpid()}"


class Base(DeclarativeBase):
    pass


class Note(Base):
    __tablename__ = TABLE

    id: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str]


class OwnSession(Session):
    """An author's own class."""


@pytest.fixture
async def postgres(tmp_path: Path) -> AsyncIterator[World]:
    """A store, with an empty table beside the journal."""
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {TABLE} (id int PRIMARY KEY, text text)")
        try:
            async with open_world("postgres", tmp_path, virtual=False) as world:
                yield world
        finally:
            connection.execute(f"DROP TABLE {TABLE}")


def noted() -> list[int]:
    with psycopg.connect(server_url()) as connection:
        return [number for (number,) in connection.execute(f"SELECT id FROM {TABLE} ORDER BY id")]  # noqa: S608


@step(tx=True, retry=Retry(2, first="1ms"))
async def book(number: int) -> int:
    session = transaction(AsyncSession)
    assert transaction(AsyncSession) is session
    session.add(Note(id=number, text="async"))
    async with session.begin_nested():
        session.add(Note(id=number + 1, text="savepoint"))
    if number == 50 and current().attempt == 1:
        raise ValueError("tried again")
    return len((await session.scalars(select(Note))).all())


@step(tx=True, retry=Retry.none)
def book_blocking(number: int) -> str:
    session = transaction(OwnSession)
    session.add(Note(id=number, text="blocking"))  # written when the body has returned
    return type(session).__name__


@workflow
async def books(number: int) -> list[int | str]:
    return [await book(number), await asyncio.to_thread(book_blocking, number + 2)]


async def test_what_a_session_holds_is_committed_with_the_outcome(postgres: World) -> None:
    """Promise: objects that were only added are written, once, whether the step is async or not, also in a second run
    on the same connections; an attempt that fails leaves nothing."""
    async with postgres.serving(books) as app:
        assert await (await app.start(books(10))).result(timeout=30) == [2, "OwnSession"]
        assert await (await app.start(books(50))).result(timeout=30) == [5, "OwnSession"]
    assert noted() == [10, 11, 12, 50, 51, 52]


async def test_an_error_of_the_last_write_fails_the_attempt(postgres: World) -> None:
    """Promise: a constraint that is met when the session is written is an error of the step, as itself, and nothing of
    the attempt is kept."""

    @workflow
    async def doubled() -> str:
        await asyncio.to_thread(book_blocking, 7)
        try:
            await asyncio.to_thread(book_blocking, 7)
        except StepFailed as failed:
            return str(failed)
        return "twice"

    async with postgres.serving(doubled) as app:
        assert "IntegrityError" in await (await app.start(doubled())).result(timeout=30)
    assert noted() == [7]


ways = count()


@step(tx=True, retry=Retry.none)
async def ends_itself(how: str) -> None:
    session = transaction(AsyncSession)
    session.add(Note(id=100 + next(ways), text=how))
    if how == "begin":
        async with session.begin():
            pass
    else:
        await getattr(session, how)()


@step(tx=True, retry=Retry.none)
def ends_itself_blocking(how: str) -> None:
    getattr(transaction(Session), how)()


@step(tx=True, retry=Retry.none)
def swallows() -> None:
    session = transaction(Session)
    session.add(Note(id=200, text="one"))
    session.flush()
    session.add(Note(id=200, text="another"))
    try:
        session.flush()
    except IntegrityError:
        return


@step(tx=True, retry=Retry.none)
def wrong_kind() -> None:
    transaction(AsyncSession)


@step(tx=True, retry=Retry.none)
async def wrong_kind_async() -> None:
    transaction(Session)


@workflow
async def misused(what: str) -> None:
    match what.split():
        case ["async", how]:
            await ends_itself(how)
        case ["blocking", how]:
            await asyncio.to_thread(ends_itself_blocking, how)
        case ["swallows"]:
            await asyncio.to_thread(swallows)
        case ["kind"]:
            await asyncio.to_thread(wrong_kind)
        case _:
            await wrong_kind_async()


async def test_what_would_end_the_transaction_is_refused(postgres: World) -> None:
    """Promise: commit, rollback, close and begin say what to do instead, a session that was rolled back cannot commit,
    and a session of the other kind is named. Nothing of it is kept."""
    async with postgres.serving(misused) as app:
        for what, said in (
            ("async commit", r"commit\(\) on a session of Holdfast.*begin_nested"),
            ("async rollback", r"rollback\(\) on a session"),
            ("async close", r"close\(\) on a session"),
            ("async begin", r"begin\(\) on a session"),
            ("blocking commit", r"commit\(\) on a session"),
            ("blocking begin", r"begin\(\) on a session"),
            ("swallows", "rolled back in the body of its step"),
            ("kind", r"in a `def` step: ask for transaction\(Session\)"),
            ("kind async", r"in an `async def` step: ask for transaction\(AsyncSession\)"),
        ):
            with pytest.raises(RunFailed, match=said):
                await (await app.start(misused(what))).result(timeout=30)
    assert noted() == []


async def test_on_sqlite_it_is_refused_with_the_reason(tmp_path: Path) -> None:
    """Promise: SQLAlchemy on SQLite is another copy of SQLite; the error says so, and what to use."""
    async with open_world("sqlite", tmp_path, virtual=False) as world, world.serving(books) as app:
        with pytest.raises(RunFailed, match=r"another copy of SQLite.*apsw\.Connection"):
            await (await app.start(books(1))).result(timeout=30)
