"""What the disk and the database allow: rows of the journal's shape through plain apsw or psycopg, nothing else.

Taken just before and just after what they are compared with, since the machine may be busy otherwise.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median, quantiles
from tempfile import TemporaryDirectory
from typing import Protocol

import apsw
import psycopg
from psycopg import sql

BODY = (
    b'[{"t":"done","key":"work:500","value":{"n":500}},{"t":"step","key":"work:501","step":"work","value":{"n":501}}]'
)
GROUP = 100

_SCHEMA = """
CREATE TABLE events (seq INTEGER PRIMARY KEY, run INTEGER NOT NULL, ordinal INTEGER NOT NULL, epoch INTEGER NOT NULL,
    at INTEGER NOT NULL, format INTEGER NOT NULL, checksum BLOB NOT NULL, body BLOB NOT NULL);
CREATE UNIQUE INDEX events_of_run ON events (run, ordinal);
"""
_INSERT = "INSERT INTO events (run, ordinal, epoch, at, format, checksum, body) VALUES (?, ?, ?, ?, ?, ?, ?)"
_TABLE = """
CREATE TABLE events (seq bigint GENERATED ALWAYS AS IDENTITY, run bigint NOT NULL, ordinal bigint NOT NULL,
    epoch bigint NOT NULL, at bigint NOT NULL, format integer NOT NULL, checksum bytea NOT NULL, body bytea NOT NULL,
    PRIMARY KEY (run, ordinal))
"""
_PREPARED = """
INSERT INTO events (run, ordinal, epoch, at, format, checksum, body) VALUES (%b, %b, %b, %b, %b, %b, %b)
"""


class RawStore(Protocol):
    """One table, as durable as the stores that are measured beside it."""

    def commits_per_second(self, commits: int) -> float:
        """Transactions of one row each."""
        ...

    def grouped_rows_per_second(self, groups: int) -> float:
        """Rows of transactions of 100 rows, each of another run."""
        ...

    def close(self) -> None:
        """Closes it."""
        ...


class RawFile:
    """A file with one table, WAL and synchronous=FULL, checkpointed every 1,000 pages as SQLite does by default."""

    def __init__(self, folder: Path) -> None:
        self._connection = apsw.Connection(str(folder / "raw.db"))
        self._execute = self._connection.execute
        self._execute("PRAGMA journal_mode = WAL")
        self._execute("PRAGMA synchronous = FULL")
        self._execute(_SCHEMA)
        self._rows = Rows()

    def commits_per_second(self, commits: int) -> float:
        """See `RawStore`."""
        started = time.perf_counter()
        for _ in range(commits):
            self._execute("BEGIN IMMEDIATE")
            self._execute(_INSERT, self._rows.next(1))
            self._execute("COMMIT")
        return commits / (time.perf_counter() - started)

    def grouped_rows_per_second(self, groups: int) -> float:
        """See `RawStore`."""
        started = time.perf_counter()
        for _ in range(groups):
            self._execute("BEGIN IMMEDIATE")
            for run in range(GROUP):
                self._execute(_INSERT, self._rows.next(run + 2))
            self._execute("COMMIT")
        return groups * GROUP / (time.perf_counter() - started)

    def close(self) -> None:
        """See `RawStore`."""
        self._connection.close()


class RawTable:
    """A table of a PostgreSQL server, over one connection, by prepared statements with binary parameters."""

    def __init__(self, address: str, schema: str) -> None:
        self._connection = psycopg.connect(address, autocommit=True)
        quoted = sql.Identifier(schema)
        self._connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(quoted))
        self._connection.execute(sql.SQL("SET search_path TO {}").format(quoted))
        self._connection.execute(_TABLE)
        self._rows = Rows()

    def commits_per_second(self, commits: int) -> float:
        """See `RawStore`: each insert commits by itself, without a round trip for it."""
        started = time.perf_counter()
        for _ in range(commits):
            self._connection.execute(_PREPARED, self._rows.next(1), prepare=True)
        return commits / (time.perf_counter() - started)

    def grouped_rows_per_second(self, groups: int) -> float:
        """See `RawStore`: a pipeline, so that a group takes few round trips."""
        started = time.perf_counter()
        for _ in range(groups):
            with self._connection.pipeline(), self._connection.transaction():
                for run in range(GROUP):
                    self._connection.execute(_PREPARED, self._rows.next(run + 2), prepare=True)
        return groups * GROUP / (time.perf_counter() - started)

    def close(self) -> None:
        """See `RawStore`."""
        self._connection.close()


class Rows:
    """Rows like those of the journal."""

    def __init__(self) -> None:
        self._ordinal = 0

    def next(self, run: int) -> tuple[int, int, int, int, int, bytes, bytes]:
        """The next one of a run."""
        self._ordinal += 1
        stamp = 1_700_000_000_000_000 + self._ordinal
        return (run, self._ordinal, 1, stamp, 1, os.urandom(16), BODY)


class BesideRaw:
    """Raw 1-row commits before and after what is measured; their mean is what it is compared with."""

    def __init__(self, store: RawStore, commits: int) -> None:
        self._store = store
        self._commits = commits
        self._rates: list[float] = []

    def take(self) -> float:
        """Measures once; the mean of the last two."""
        self._rates.append(self._store.commits_per_second(self._commits))
        return mean(self._rates[-2:])

    def close(self) -> None:
        """Closes the store."""
        self._store.close()


def percentile(values: Sequence[float], which: int) -> float:
    """By interpolation; of a single value, that one."""
    return quantiles(values, n=100, method="inclusive")[which - 1] if len(values) > 1 else values[0]


def sync_milliseconds(folder: Path, times: int) -> tuple[float, float]:
    """Median and 99th percentile of syncing one page of 4 kB that was appended to a file."""
    path = folder / "sync.bin"
    taken: list[float] = []
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        for number in range(times):
            os.pwrite(descriptor, bytes(4096), number * 4096)
            started = time.perf_counter()
            os.fsync(descriptor)
            taken.append((time.perf_counter() - started) * 1e3)
    finally:
        os.close(descriptor)
        path.unlink()
    return median(taken), percentile(taken, 99)


def raw_limits(store: RawStore, commits: int) -> dict[str, float]:
    """All of them."""
    try:
        with TemporaryDirectory() as folder:
            p50, p99 = sync_milliseconds(Path(folder), commits)
        return {
            "raw.commits": store.commits_per_second(commits),
            "raw.grouped": store.grouped_rows_per_second(max(1, commits // 10)),
            "raw.sync_p50": p50,
            "raw.sync_p99": p99,
        }
    finally:
        store.close()
