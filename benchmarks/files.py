"""SQLite files in a folder."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import apsw

from benchmarks.counting import Connections
from benchmarks.places import YEAR
from benchmarks.raw import RawFile

_SCHEDULES = """
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1)
INSERT INTO schedules (name, revision, next_at, workflow, body)
SELECT 'schedule-' || n, 1, ?2 + n, 'one', x'7b7d' FROM numbers
"""
_KEYS = """
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1)
INSERT INTO rates (name, key, tat, quiet_until) SELECT 'customer', 'key-' || n, 0, 0 FROM numbers
"""
_PLACES = """
INSERT INTO places (name, key, slot, run, step, epoch)
SELECT name, key, 0, 1000000000 + row_number() OVER (), 'price', 1 FROM rates
"""


class Files:
    """See `places`. The caller that made the folder removes it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return None

    def path(self, name: str) -> Path:
        """Where a store is."""
        return self._folder / f"{name}.db"

    def url(self, name: str) -> str:
        """See `places`."""
        return f"sqlite:///{self.path(name)}"

    def raw(self) -> RawFile:
        """See `places`."""
        return RawFile(self._folder)

    def lease_left(self, name: str, worker: str) -> float:
        """See `places`."""
        connection = apsw.Connection(str(self.path(name)), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            rows: list[Any] = connection.execute("SELECT expires FROM workers WHERE worker = ?", (worker,)).fetchall()
        finally:
            connection.close()
        expires_at: float = rows[0][0] / 1e6
        return max(0.0, expires_at - time.clock_gettime(time.CLOCK_BOOTTIME))

    def stored_bytes(self, name: str) -> int:
        """See `places`: the size of the file with its log taken in."""
        connection = apsw.Connection(str(self.path(name)))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.close()
        return self.path(name).stat().st_size

    def multiply(self, name: str, rows: int) -> None:
        """See `places`."""
        connection = apsw.Connection(str(self.path(name)))
        columns = [str(row[1]) for row in connection.execute("PRAGMA table_info(runs)") if row[1] not in {"no", "id"}]
        listed = ", ".join(columns)
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(
            f"INSERT INTO runs (id, {listed}) WITH RECURSIVE numbers (n) AS "  # noqa: S608 its own columns, read from itself
            f"(VALUES (1) UNION ALL SELECT n + 1 FROM numbers WHERE n < ?) "
            f"SELECT 'run-' || n, {listed} FROM numbers, runs WHERE id = 'pattern'",
            (rows,),
        )
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.close()

    def crowd(self, name: str, schedules: int, keys: int) -> None:
        """See `places`."""
        connection = apsw.Connection(str(self.path(name)))
        connection.execute("PRAGMA synchronous = OFF")
        for statement, values in (
            (_SCHEDULES, (schedules, int((time.time() + YEAR) * 1e6))),
            (_KEYS, (keys,)),
            (_PLACES, ()),
        ):
            connection.execute(statement, values)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.close()

    @contextmanager
    def counted(self) -> Iterator[_Counts]:
        """See `places`."""
        with Connections() as connections:
            yield _Counts(connections)


class _Counts:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    @contextmanager
    def during(self) -> Iterator[dict[str, int]]:
        found: dict[str, int] = {}
        with self._connections.counted() as statements:
            yield found
        found["writes"] = statements["COMMIT"]
        found["reads"] = _reads(statements)
        found["looks"] = statements["PRAGMA data_version"]


def _reads(statements: Counter[str]) -> int:
    return sum(count for text, count in statements.items() if text.startswith("SELECT"))
