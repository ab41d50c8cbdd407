"""A table of notes that steps with tx=True write to."""

from __future__ import annotations

import os
from typing import Any, cast

import apsw
import psycopg

from holdfast import Retry, transaction
from tests.support.world import World

NOTES = f"tx_notes_{os.getpid()}"

MAKE = f"CREATE TABLE IF NOT EXISTS {NOTES} (text text, UNIQUE (text) DEFERRABLE INITIALLY DEFERRED)"

MAKE_LITE = f"CREATE TABLE {NOTES} (text text)"

INSERT = f"INSERT INTO {NOTES} VALUES ('%s')"  # noqa: S608 - a name of this process

SELECT = f"SELECT text FROM {NOTES} ORDER BY text"  # noqa: S608

DELETE = f"DELETE FROM {NOTES}"  # noqa: S608


async def prepare(world: World) -> None:
    async with world.app().connection() as connection:
        if world.kind == "sqlite":
            connection.execute(MAKE_LITE)
        else:
            await connection.execute(MAKE)
            await connection.execute(DELETE)


async def noted(world: World) -> list[str]:
    """What is in the table."""
    async with world.app().connection() as connection:
        if world.kind == "sqlite":
            return [text for (text,) in connection.execute(SELECT)]
        return [text for (text,) in await (await connection.execute(SELECT)).fetchall()]


async def write(text: str) -> None:
    """Into the transaction of an async step."""
    connection = transaction(object)
    if isinstance(connection, apsw.Connection):
        cast("Any", connection).execute(INSERT % text)
    else:
        assert isinstance(connection, psycopg.AsyncConnection)
        await connection.execute(INSERT.encode() % text.encode())


def write_blocking(text: str) -> None:
    connection = transaction(object)
    assert isinstance(connection, apsw.Connection | psycopg.Connection)
    cast("Any", connection).execute(INSERT % text)


def quick(attempts: int = 3) -> Retry:
    return Retry(attempts, first="1ms")
