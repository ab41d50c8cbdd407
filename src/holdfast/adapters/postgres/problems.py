"""What PostgreSQL's errors mean for Holdfast."""

from __future__ import annotations

import psycopg
from psycopg import errors as pg

from holdfast.errors import (
    DiskFull,
    HoldfastError,
    InvalidInput,
    StoreContended,
    StoreError,
    StoreRefused,
    StoreUnavailable,
)

WORTH_ANOTHER_TRY = (pg.DeadlockDetected, pg.SerializationFailure)
"""The transaction was rolled back, and the same may succeed at once."""

_GONE = ("08", "57P")  # connection exceptions; the server is shutting down, has crashed, or is starting


def is_lost(error: BaseException) -> bool:
    """Whether the connection broke, so that the outcome of the last statement is unknown."""
    if isinstance(error, pg.ReadOnlySqlTransaction | pg.InvalidSqlStatementName):
        return True  # the server became a standby: ask for the primary; what was prepared was thrown away
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(_GONE)


def translated(error: BaseException) -> HoldfastError:
    """The Holdfast error for an error of the driver."""
    match error:
        case HoldfastError():
            return error
        case pg.DiskFull():
            return DiskFull(f"the PostgreSQL server has no room left ({first_line(error)}). Nothing was kept.")
        case pg.InsufficientPrivilege():
            return StoreRefused(
                f"PostgreSQL does not let this role use the store ({first_line(error)}). Grant it USAGE on the schema "
                "and all rights on what is in it, or let a role that owns the schema open the store first."
            )
        case pg.UndefinedFunction() | pg.UndefinedTable() | pg.UndefinedColumn() | pg.InvalidSchemaName():
            return StoreRefused(
                f"the store's schema is not what this Holdfast expects ({first_line(error)}). A newer one may have "
                "migrated it, or it was dropped: open the store again."
            )
        case pg.DataError() if error.sqlstate is None:
            return InvalidInput(f"PostgreSQL cannot hold this value: {first_line(error)}.")
        case pg.DeadlockDetected() | pg.SerializationFailure() | pg.LockNotAvailable() | pg.QueryCanceled():
            return StoreContended(f"PostgreSQL did not carry out the statement ({first_line(error)}). Try again.")
        case psycopg.OperationalError() | psycopg.InterfaceError() if is_lost(error):
            return StoreUnavailable(
                f"no answer from the PostgreSQL server ({first_line(error)}): it may or may not have done what was "
                "asked. Try again."
            )
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return StoreUnavailable(f"PostgreSQL did not carry out the statement ({first_line(error)}). Try again.")
        case _:
            return StoreError(f"PostgreSQL refused a statement ({type(error).__name__}: {first_line(error)}).")


def is_of_one(error: Exception) -> bool:
    """Whether one of several that share a transaction may have caused the error, by a lock or a value."""
    return isinstance(error, StoreContended) or not isinstance(error, StoreUnavailable)


def first_line(error: BaseException) -> str:
    """The message without its context, which may repeat what was sent."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def advice(problem: str) -> str:
    """What to do about a failed connection, by the words of libpq or the server; empty if unknown."""
    return next((told for words, told in _ADVICE if any(word in problem for word in words)), "")


_ADVICE = (
    (("Connection refused", "No such file or directory"), "Is the server running, and is this its host and port?"),
    (("could not translate host name", "Name or service not known"), "Is the name of the host right?"),
    (("timeout expired", "timed out"), "Is the host reachable, or does a firewall block it?"),
    (("no password supplied",), "Put the password into the address, into PGPASSWORD or into ~/.pgpass."),
    (("password authentication failed",), "Check the user and the password of the address."),
    (("no pg_hba.conf entry",), "Let the server accept this user from this host (pg_hba.conf)."),
    (('role "',), "Create the role (createuser), or name another: postgresql://user@host/database."),
    (('database "',), "Create the database (createdb), or name another in the address."),
)
