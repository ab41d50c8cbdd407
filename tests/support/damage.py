"""Writing into a store's tables past the store, as a failing disk or somebody's hand would."""

# pyright: reportUnknownMemberType=false
from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import psycopg
from psycopg import sql as quoting

from tests.support.postgres import server_url


def write_sqlite(path: Path, table: str, column: str, value: object, where: tuple[str, object]) -> Any:
    """Sets a column of one row of a file; returns what stood there. Text that is not UTF-8 is given as bytes."""
    connection = apsw.Connection(str(path))
    try:
        connection.set_busy_timeout(5000)
        key, name = where
        ((before,),) = connection.execute(f"SELECT CAST({column} AS BLOB) FROM {table} WHERE {key} = ?", (name,))  # noqa: S608
        ((kind,),) = connection.execute(f"SELECT typeof({column}) FROM {table} WHERE {key} = ?", (name,))  # noqa: S608
        placed = "CAST(? AS TEXT)" if kind == "text" and isinstance(value, bytes) else "?"
        connection.execute(f"UPDATE {table} SET {column} = {placed} WHERE {key} = ?", (value, name))  # noqa: S608
    finally:
        connection.close()
    match kind:
        case "integer":
            return int(before)
        case "text":
            return before.decode()
        case _:
            return before


def write_postgres(schema: str, table: str, column: str, value: object, where: tuple[str, object]) -> Any:
    """The same in a schema of the tests' server."""
    key, name = where
    places = {"table": quoting.Identifier(schema, table), "column": quoting.Identifier(column)}
    key_column = quoting.Identifier(key)
    with psycopg.connect(server_url(), autocommit=True) as connection:
        ask = quoting.SQL("SELECT {column} FROM {table} WHERE {key} = %s").format(key=key_column, **places)
        ((before,),) = connection.execute(ask, (name,)).fetchall()
        change = quoting.SQL("UPDATE {table} SET {column} = %s WHERE {key} = %s").format(key=key_column, **places)
        connection.execute(change, (value, name))
    return before
