"""Starts a run, or sends to one, in the caller's transaction: on SQLite, one that the store has lent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import apsw

from holdfast.adapters.sqlite.connections import translated
from holdfast.adapters.sqlite.lent_transaction import LentTransaction
from holdfast.adapters.sqlite.transaction import Transaction
from holdfast.errors import InvalidInput

T = TypeVar("T")

HOW = "Use `async with app.connection() as connection:` and write to your own tables with that"


def within(lent: LentTransaction | None, connection: object, operation: Callable[[Transaction], T], url: str) -> T:
    """Does the work in the lent transaction, if the connection belongs to it."""
    if lent is None or not lent.is_open or connection is not lent.connection:
        raise InvalidInput(f"{_reason(connection, url)} {HOW}.")
    try:
        return _under_savepoint(lent, operation)
    except apsw.Error as error:
        raise translated(error) from error


def _under_savepoint(lent: LentTransaction, operation: Callable[[Transaction], T]) -> T:
    """Runs the work under a savepoint, so that refused work leaves the rest of the transaction intact."""
    done: list[T] = []
    transaction = lent.transaction
    with lent.connection:  # whose type says that it may swallow errors
        done.append(operation(transaction))
    return done[0]


def _reason(connection: object, url: str) -> str:
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    if isinstance(connection, apsw.Connection):
        return f"connection= does not come from app.connection() of {url}, or its block has ended."
    if kind.startswith("sqlite3."):
        return (
            "connection= is a connection of the standard library's sqlite3. Its transaction cannot be joined: it is "
            "another copy of SQLite, which does not know our locks, and on one file each would drop the other's."
        )
    return f"connection= is a {kind}, whose transaction cannot be joined: the journal of this app is in {url}."
