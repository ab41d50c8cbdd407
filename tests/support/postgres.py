"""The PostgreSQL server of the tests: one per run, shared by its workers, a schema for each test."""

from __future__ import annotations

import atexit
import os
from itertools import count
from typing import Any

import psycopg
from psycopg import sql as quoting

from tests.support.shared_server import shared_port

_numbers = count(1)


def server_port() -> int:
    """The port of the server of this run, see `tests.support.shared_server`."""
    return shared_port("postgres")


def new_schema() -> str:
    """A name that no other test of this run uses."""
    return f"test_{os.getpid()}_{next(_numbers)}"


def clean_url(options: str = "") -> str:
    """The address of an empty store: a schema of this process, emptied of what the last test left in it.

    Emptying takes a few milliseconds, making a schema some fifty. If somebody still uses it, there is another.
    """
    global _schema  # noqa: PLW0603 - one schema for the process, as long as nobody is in the way
    if not _schema or not _emptied(_schema):
        _schema = new_schema()
    return server_url(_schema) + options


_schema = ""


def _emptied(schema: str) -> bool:
    connection = _broom()
    tables = [name for (name,) in connection.execute(_TABLES, (schema,)).fetchall()]
    names = [quoting.SQL("DELETE FROM {}").format(quoting.Identifier(schema, name)) for name in tables]
    if not names:
        return True
    names.append(quoting.SQL(_NO_MARKS).format(quoting.Identifier(schema, "meta")))
    try:
        connection.execute(quoting.SQL(";").join(names))
    except psycopg.errors.LockNotAvailable:
        return False
    return True


def _broom() -> psycopg.Connection[Any]:
    """The connection that empties schemas: one for each process, made again if the server has ended it."""
    kept = _brooms.get(os.getpid())
    if kept is not None and not kept.closed:
        try:
            kept.execute("SELECT")
        except psycopg.OperationalError:
            kept.close()
        else:
            return kept
    made = psycopg.connect(server_url(), autocommit=True, options="-c lock_timeout=1s")
    _brooms[os.getpid()] = made
    atexit.register(made.close)
    return made


_brooms: dict[int, psycopg.Connection[Any]] = {}


_NO_MARKS = "DELETE FROM {} WHERE name IN ('folder', 'leases')"
_TABLES = """
SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s) AND relkind = 'r' AND relname <> 'meta'
"""


def waiting_for(connection: psycopg.Connection[Any]) -> int:
    """How many sessions wait for a lock of this one, or of one that does."""
    ((count,),) = connection.execute(_WAITING).fetchall()
    return int(count)


_WAITING = """
WITH RECURSIVE behind (pid) AS (
    SELECT pg_backend_pid()
    UNION SELECT a.pid FROM pg_stat_activity AS a, behind WHERE behind.pid = ANY (pg_blocking_pids(a.pid)))
SELECT count(*) - 1 FROM behind
"""


def server_url(schema: str = "", *, port: int | None = None) -> str:
    """The address of the server, or of a schema in it."""
    base = f"postgresql://postgres@127.0.0.1:{port or server_port()}/postgres"
    return f"{base}?schema={schema}" if schema else base
