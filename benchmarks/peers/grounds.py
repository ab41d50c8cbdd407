"""Where a peer's databases are: SQLite files, or databases of the PostgreSQL server that Holdfast is measured on too.

A ground is of one cell. What takes long to prepare is made once for all rounds, and copied.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

import apsw


class Ground(Protocol):
    """Databases by name."""

    def url(self, name: str) -> str:
        """The address of an empty one."""
        ...

    async def copied(self, name: str, make: Callable[[str], Awaitable[None]]) -> str:
        """The address of a copy of what `make` once left at an address."""
        ...

    def count(self, url: str, query: str) -> int:
        """The answer to a question that has one number for an answer."""
        ...

    def stored_bytes(self, url: str) -> int:
        """What it takes on the disk."""
        ...


def ground_of(store: str, folder: Path, shared: Path) -> Ground:
    """For peers on that kind of store; `shared` is a folder that all rounds have in common."""
    return Files(folder, shared) if store == "sqlite" else Databases(shared)


class Files:
    """SQLite files in a folder."""

    def __init__(self, folder: Path, shared: Path) -> None:
        self._folder = folder
        self._shared = shared

    def url(self, name: str) -> str:
        """See `Ground`."""
        return f"sqlite:///{self._folder / name}.sqlite"

    async def copied(self, name: str, make: Callable[[str], Awaitable[None]]) -> str:
        """See `Ground`. A killed writer may leave a journal beside its file: it is copied with it."""
        made = self._shared / f"{name}.sqlite"
        if not made.exists():
            making = self._shared / f"making-{name}.sqlite"
            await make(f"sqlite:///{making}")
            for file in self._shared.glob(f"{making.name}*"):
                file.rename(self._shared / file.name.removeprefix("making-"))
        for file in self._shared.glob(f"{made.name}*"):
            shutil.copy(file, self._folder)
        return f"sqlite:///{self._folder / made.name}"

    def count(self, url: str, query: str) -> int:
        """See `Ground`."""
        connection = apsw.Connection(url.removeprefix("sqlite:///"), flags=apsw.SQLITE_OPEN_READONLY)
        connection.set_busy_timeout(1000)
        try:
            rows: list[Any] = connection.execute(query).fetchall()
        finally:
            connection.close()
        return int(rows[0][0])

    def stored_bytes(self, url: str) -> int:
        """See `Ground`."""
        return Path(url.removeprefix("sqlite:///")).stat().st_size


class Databases:
    """Databases of the server. They go with it."""

    def __init__(self, shared: Path) -> None:
        self._run = f"{shared.name}".lower().replace("-", "_")

    def url(self, name: str) -> str:
        """See `Ground`."""
        database = f"{name}_{secrets.token_hex(4)}"
        _execute(f'CREATE DATABASE "{database}"')
        return _url(database)

    async def copied(self, name: str, make: Callable[[str], Awaitable[None]]) -> str:
        """See `Ground`. The server copies a database as a template, once no connection to it is left."""
        made = f"{self._run}_{name}"
        if not self.count(_url("postgres"), f"SELECT count(*) FROM pg_database WHERE datname = '{made}'"):  # noqa: S608 our own name
            _execute(f'CREATE DATABASE "{made}_making"')
            await make(_url(f"{made}_making"))
            self._wait_until_left(f"{made}_making")
            _execute(f'ALTER DATABASE "{made}_making" RENAME TO "{made}"')
        copy = f"{name}_{secrets.token_hex(4)}"
        _execute(f'CREATE DATABASE "{copy}" TEMPLATE "{made}"')
        return _url(copy)

    def _wait_until_left(self, database: str) -> None:
        """The server takes a moment to notice that a process was killed."""
        query = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}'"  # noqa: S608 our own name
        while self.count(_url("postgres"), query):
            time.sleep(0.02)

    def count(self, url: str, query: str) -> int:
        """See `Ground`."""
        with _connected(url) as connection:
            rows: list[Any] = connection.execute(query.encode()).fetchall()
        return int(rows[0][0])

    def stored_bytes(self, url: str) -> int:
        """See `Ground`: all tables and indexes, vacuumed."""
        with _connected(url) as connection:
            connection.execute(b"VACUUM")
        return self.count(url, _BYTES)


_BYTES = """
SELECT coalesce(sum(pg_table_size(c.oid) + pg_indexes_size(c.oid)), 0) FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')
"""


def _connected(url: str) -> Any:
    import psycopg

    return psycopg.connect(url, autocommit=True)


def _execute(statement: str) -> None:
    with _connected(_url("postgres")) as connection:
        connection.execute(statement.encode())


def _url(database: str) -> str:
    from tests.support.postgres import server_url

    return server_url().rpartition("/")[0] + f"/{database}"
