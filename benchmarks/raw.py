"""What the disk and SQLite allow: rows of the journal's shape through plain apsw, nothing else.

Taken just before and just after what they are compared with, since the machine may be busy otherwise.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median, quantiles

import apsw

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


class RawStore:
    """A file with one table, WAL and synchronous=FULL, checkpointed every 1,000 pages as SQLite does by default."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._connection = apsw.Connection(str(folder / "raw.db"))
        self._execute = self._connection.execute
        self._execute("PRAGMA journal_mode = WAL")
        self._execute("PRAGMA synchronous = FULL")
        self._execute(_SCHEMA)
        self._ordinal = 0

    def commits_per_second(self, commits: int) -> float:
        """Transactions of one row each."""
        started = time.perf_counter()
        for _ in range(commits):
            self._execute("BEGIN IMMEDIATE")
            self._insert(1)
            self._execute("COMMIT")
        return commits / (time.perf_counter() - started)

    def grouped_rows_per_second(self, groups: int) -> float:
        """Rows of transactions of 100 rows, each of another run."""
        started = time.perf_counter()
        for _ in range(groups):
            self._execute("BEGIN IMMEDIATE")
            for run in range(GROUP):
                self._insert(run + 2)
            self._execute("COMMIT")
        return groups * GROUP / (time.perf_counter() - started)

    def sync_milliseconds(self, times: int) -> tuple[float, float]:
        """Median and 99th percentile of syncing one page of 4 kB that was appended to a file."""
        path = self._folder / "sync.bin"
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

    def close(self) -> None:
        """Lets go of the file."""
        self._connection.close()

    def _insert(self, run: int) -> None:
        self._ordinal += 1
        stamp = 1_700_000_000_000_000 + self._ordinal
        self._execute(_INSERT, (run, self._ordinal, 1, stamp, 1, os.urandom(16), BODY))


class BesideRaw:
    """Raw 1-row commits before and after what is measured; their mean is what it is compared with."""

    def __init__(self, folder: Path, commits: int) -> None:
        self._store = RawStore(folder)
        self._commits = commits
        self._rates: list[float] = []

    def take(self) -> float:
        """Measures once; the mean of the last two."""
        self._rates.append(self._store.commits_per_second(self._commits))
        return mean(self._rates[-2:])

    def close(self) -> None:
        """Lets go of the file."""
        self._store.close()


def percentile(values: Sequence[float], which: int) -> float:
    """By interpolation; of a single value, that one."""
    return quantiles(values, n=100, method="inclusive")[which - 1] if len(values) > 1 else values[0]


def raw_limits(folder: Path, commits: int) -> dict[str, float]:
    """All of them."""
    store = RawStore(folder)
    try:
        p50, p99 = store.sync_milliseconds(commits)
        return {
            "raw.commits": store.commits_per_second(commits),
            "raw.grouped": store.grouped_rows_per_second(max(1, commits // 10)),
            "raw.sync_p50": p50,
            "raw.sync_p99": p99,
        }
    finally:
        store.close()
