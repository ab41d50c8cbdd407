"""A caller's transaction on asyncpg: what is taken, and how statements are sent over it.

asyncpg is never imported: a caller that passes one of its connections has imported it. Its parameters are `$1`, and its
errors are given the classes of psycopg, by which the rest of this package knows what they mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeGuard, cast

import psycopg
from psycopg import errors as pg

from holdfast.adapters.postgres.after_commit import is_of
from holdfast.errors import InvalidInput


class AsyncpgConnection(Protocol):
    """What is used of an `asyncpg.Connection`, or of one that a pool has lent."""

    def is_closed(self) -> bool:
        """Whether it is closed. Raises if it is back in its pool."""
        ...

    def is_in_transaction(self) -> bool:
        """Whether a transaction is open."""
        ...

    async def fetch(self, query: str, *args: Any) -> Sequence[Any]:
        """The rows of a statement."""
        ...


def is_asyncpg(given: object) -> TypeGuard[AsyncpgConnection]:
    """Whether it is a connection of asyncpg. A pool is not: nobody knows which of its connections it would use."""
    return is_of(given, "asyncpg") and hasattr(given, "is_in_transaction") and hasattr(given, "fetch")


def check_asyncpg(given: AsyncpgConnection) -> None:
    """Raises `InvalidInput` unless it has an open transaction."""
    try:
        is_closed = given.is_closed()
    except Exception as error:
        if not is_of(error, "asyncpg"):
            raise
        raise InvalidInput(
            "connection= was given back to its pool. Use it within the block that acquired it: `async with "
            "pool.acquire() as connection, connection.transaction():`."
        ) from None
    if is_closed:
        raise InvalidInput("connection= is closed. Give the connection of an open transaction.")
    if not given.is_in_transaction():
        raise InvalidInput(
            "connection= has no transaction open, so there is none to join. Open one (`async with "
            "connection.transaction():`), or leave connection= out."
        )


async def fetch(connection: AsyncpgConnection, statement: bytes, values: Sequence[Any]) -> list[Any]:
    """The rows of one of our statements. Raises errors of psycopg."""
    head, *rest = statement.decode().replace("%%", "%").split("%b")
    text = head + "".join(f"${number}{piece}" for number, piece in enumerate(rest, start=1))
    try:
        return [tuple(row) for row in await connection.fetch(text, *values)]
    except Exception as error:
        if isinstance(error, OSError) or is_of(error, "asyncpg"):
            raise _as_psycopg(error) from error
        raise


def _as_psycopg(error: Exception) -> Exception:
    sqlstate, text = cast("str | None", getattr(error, "sqlstate", None)), str(error)
    if sqlstate:
        try:
            return pg.lookup(sqlstate)(text)
        except KeyError:
            return psycopg.DatabaseError(text)
    if "another operation is in progress" in text:
        return InvalidInput("connection= is in the middle of another statement. Finish it first.")
    if isinstance(error, ValueError):  # a value that asyncpg cannot send
        return psycopg.DataError(text)
    return psycopg.OperationalError(text)
