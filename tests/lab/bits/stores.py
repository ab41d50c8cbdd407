"""A filled store of each kind, to be copied, damaged and looked at as often as one likes."""

# ruff: noqa: S608 - the names in these statements are those of the schema itself

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Literal, LiteralString, Protocol, TypeAlias

import apsw
import psycopg
from psycopg import sql as quoting

from tests.lab.bits.runs import fill
from tests.support.postgres import server_url

Kind: TypeAlias = Literal["sqlite", "postgres"]
Column: TypeAlias = tuple[str, str]
"""A table and a column of it."""

_numbers = count(1)


class Filled(Protocol):
    """A store that was filled once. `is_costly`: a copy that was only looked at is worth being used again."""

    is_costly: bool

    def columns(self) -> list[Column]:
        """All columns of all tables."""
        ...

    def rows(self, column: Column) -> list[tuple[Any, Any]]:
        """The place and the value of each row."""
        ...

    def copy(self) -> str:
        """The address of a copy."""
        ...

    def change(self, url: str, column: Column, place: Any, value: Any) -> None:
        """Writes another value; `Refused` if the database does not take it. A place stays good for its copy."""
        ...

    def drop(self, url: str) -> None:
        """The copy is not needed any more."""
        ...


class Refused(Exception):
    """The database itself does not take the value."""


@contextmanager
def filled(kind: Kind) -> Generator[Filled]:
    """A filled store, gone at the end."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="holdfast-bits-") as folder:
            yield _Sqlite(Path(folder))
        return
    store = _Postgres()
    try:
        yield store
    finally:
        store.close()


class _Sqlite:
    is_costly = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._base = folder / "base.db"
        asyncio.run(fill(f"sqlite:///{self._base}"))
        self._run(self._base, "PRAGMA wal_checkpoint(TRUNCATE)")

    def columns(self) -> list[Column]:
        tables = self._run(
            self._base, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        )
        return [
            (t, name)
            for (t,) in tables
            for (name,) in self._run(self._base, f"SELECT name FROM pragma_table_info('{t}')")
        ]

    def rows(self, column: Column) -> list[tuple[Any, Any]]:
        table, name = column
        keys = self._keys(table)
        found = self._run(self._base, f'SELECT {", ".join(keys)}, "{name}" FROM {table} ORDER BY {", ".join(keys)}')
        return [(tuple(row[:-1]), row[-1]) for row in found]

    def _keys(self, table: str) -> list[str]:
        found = self._run(self._base, f"SELECT name FROM pragma_table_info('{table}') WHERE pk > 0 ORDER BY pk")
        without = self._run(
            self._base, f"SELECT 1 FROM sqlite_schema WHERE name = '{table}' AND sql LIKE '%WITHOUT ROWID%'"
        )
        return [f'"{name}"' for (name,) in found] if without else ["rowid"]

    def copy(self) -> str:
        path = self._folder / f"copy{next(_numbers)}.db"
        shutil.copyfile(self._base, path)
        return f"sqlite:///{path}"

    def change(self, url: str, column: Column, place: Any, value: Any) -> None:
        table, name = column
        where = " AND ".join(f"{key} = ?" for key in self._keys(table))
        try:
            self._run(
                Path(url.removeprefix("sqlite:///")), f'UPDATE {table} SET "{name}" = ? WHERE {where}', (value, *place)
            )
        except (apsw.ConstraintError, apsw.MismatchError) as error:
            raise Refused(str(error)) from error

    def drop(self, url: str) -> None:
        path = Path(url.removeprefix("sqlite:///"))
        for end in ("", "-wal", "-shm"):
            path.with_name(path.name + end).unlink(missing_ok=True)

    def _run(self, path: Path, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        connection: Any = apsw.Connection(str(path))
        try:
            return list(connection.execute(statement, values).fetchall())
        finally:
            connection.close()


class _Postgres:
    is_costly = True

    def __init__(self) -> None:
        self._base = f"bits_{os.getpid()}_{next(_numbers)}"
        self._moved: dict[tuple[str, str, Any], Any] = {}
        self._server("CREATE DATABASE {}", self._base)
        asyncio.run(fill(self._url(self._base)))

    def columns(self) -> list[Column]:
        return self._run(
            self._base,
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'holdfast'"
            " AND table_name IN (SELECT relname FROM pg_class WHERE relkind = 'r') ORDER BY 1, ordinal_position",
        )

    def rows(self, column: Column) -> list[tuple[Any, Any]]:
        statement = quoting.SQL("SELECT ctid::text, {} FROM holdfast.{} ORDER BY ctid").format(
            quoting.Identifier(column[1]), quoting.Identifier(column[0])
        )
        return self._run(self._base, statement)

    def copy(self) -> str:
        name = f"{self._base}_{next(_numbers)}"
        self._server("CREATE DATABASE {} TEMPLATE {}", name, self._base)
        return self._url(name)

    def change(self, url: str, column: Column, place: Any, value: Any) -> None:
        known = (url, column[0], place)
        statement = quoting.SQL("UPDATE holdfast.{} SET {} = {} WHERE ctid = {}::tid RETURNING ctid::text").format(
            quoting.Identifier(column[0]),
            quoting.Identifier(column[1]),
            quoting.Literal(value),
            quoting.Literal(self._moved.get(known, place)),
        )
        try:
            ((self._moved[known],),) = self._run(url.rpartition("/")[2], statement)
        except (psycopg.errors.IntegrityError, psycopg.errors.GeneratedAlways, psycopg.errors.DataError) as error:
            raise Refused(str(error)) from error

    def drop(self, url: str) -> None:
        self._server("DROP DATABASE IF EXISTS {} WITH (FORCE)", url.rpartition("/")[2])

    def close(self) -> None:
        self._server("DROP DATABASE IF EXISTS {} WITH (FORCE)", self._base)

    def _url(self, name: str) -> str:
        return server_url().rpartition("/")[0] + "/" + name

    def _run(self, name: str, statement: Any) -> list[Any]:
        with psycopg.connect(self._url(name), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def _server(self, statement: LiteralString, *names: str) -> None:
        with psycopg.connect(server_url(), autocommit=True) as connection:
            connection.execute(quoting.SQL(statement).format(*map(quoting.Identifier, names)))
