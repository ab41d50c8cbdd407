"""The writer's connection: opened when needed, dropped after an error of the file, with a watch on the length of the
log.

Not safe for two threads at once; the writer's lock ensures that.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress

import apsw

from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite.board import Board
from holdfast.adapters.sqlite.connections import fetch, until_free
from holdfast.errors import StoreUnavailable
from holdfast.ports.facts import CheckpointFailed, CheckpointWorks, StoreLogGrew
from holdfast.ports.telemetry import Tell

CHECKPOINT_PAGES = 1000
"""Length of the write-ahead log, in pages of 4 kB, at which it is copied into the file."""

URGENT_PAGES = 8 * CHECKPOINT_PAGES
"""Length at which writers of other processes have to wait for that, so that the log stays bounded."""

LONG_PAGES = 16 * CHECKPOINT_PAGES
"""Length at which a log that cannot be emptied is reported, and again whenever it has doubled."""

_TICK = 50_000_000
"""Nanoseconds after a write in which another write may leave the log's time unchanged: some ticks of the coarsest
clock."""


class Link:
    """A connection that can be replaced."""

    def __init__(self, connect: Callable[[], apsw.Connection], board: Board, tell: Tell) -> None:
        self._connect = connect
        self._tell = tell
        self._failures = 0  # of checkpoints, in a row
        self.board: Board = board
        self._path = str(board.store)
        self._connection: apsw.Connection | None = None
        self._version_seen = -1
        self._log = f"{self._path}-wal"
        self._log_seen: tuple[int, int, int] | None = None
        self.changes_seen: int = 0
        self.wal_pages: int = 0
        self._pages_to_tell = LONG_PAGES
        self._file: os.stat_result | None = None  # which file it was at first

    def connected(self) -> apsw.Connection:
        """The connection, opened if there is none."""
        if self._connection is None:
            connection = until_free(self._connect)
            connection.set_wal_hook(self._count_pages)
            if self._file is None:
                with suppress(FileNotFoundError):
                    self._file = os.stat(self._path)  # noqa: PTH116 as below
            self._connection, self._log_seen = connection, None
        return self._connection

    def checked(self) -> apsw.Connection:
        """The connection, to write. Raises `StoreUnavailable` if the file is no longer the one that was opened: SQLite
        would still write into a file that no process can open again."""
        connection = self._connection or self.connected()
        try:
            found = os.stat(self._path)  # noqa: PTH116 asked for every transaction, and a `Path` takes twice as long
        except FileNotFoundError:
            found = None
        seen = self._file
        if found is None or seen is None or found.st_ino != seen.st_ino or found.st_dev != seen.st_dev:
            raise StoreUnavailable(
                f"the store's file {self._path} was deleted or replaced while it was open: nothing more "
                "is written. Put the file back (mv keeps it the same file), or stop this process, restore a backup and "
                "start it again"
            )
        return connection

    def drop(self) -> None:
        """Closes the connection; the next use opens another. After a failed fsync the old one may believe what the disk
        forgot."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(apsw.Error):
                connection.close(force=True)
        self.board.close()

    def changes(self) -> int:
        """Changes whenever another connection has written. Every write goes to the log, so an unchanged log needs no
        query: an idle process looks often, and mostly nothing has happened."""
        log = _log_at(self._log)
        if log is not None and log == self._log_seen:
            return self.changes_seen
        self._log_seen = log
        before = self._version_seen
        try:
            ((version,),) = fetch(self.connected(), sql.DATA_VERSION)
            self._version_seen = int(version)
        except apsw.Error:
            self._version_seen, self._log_seen = -1, None
        if self._version_seen != before or before < 0:
            self.changes_seen += 1
        return self.changes_seen

    def checkpoint(self) -> None:
        """Copies the log into the file, as far as readers allow."""
        pages = self.wal_pages
        is_urgent = pages >= URGENT_PAGES
        self.wal_pages = 0  # the next commit counts again
        mode = apsw.SQLITE_CHECKPOINT_TRUNCATE if is_urgent else apsw.SQLITE_CHECKPOINT_PASSIVE
        try:
            self.connected().wal_checkpoint(mode=mode)
            self._checkpoint_works()
        except (apsw.BusyError, apsw.LockedError):
            self._tell_of_length(pages)  # a reader or another process is in the way; later commits ask again
        except apsw.Error as error:
            self._failures += 1
            self._tell(CheckpointFailed(error, self._failures))

    def _checkpoint_works(self) -> None:
        failures, self._failures = self._failures, 0
        if failures:
            self._tell(CheckpointWorks(failures))

    def _tell_of_length(self, pages: int) -> None:
        if pages >= self._pages_to_tell:
            self._pages_to_tell = 2 * pages
            self._tell(StoreLogGrew(pages))

    def _count_pages(self, connection: apsw.Connection, name: str, pages: int) -> int:
        self.wal_pages = pages
        return apsw.SQLITE_OK


def _log_at(path: str) -> tuple[int, int, int] | None:
    """The state of the log; None if it cannot reveal the next write. File times move in ticks: a write just before a
    look and one just after it may leave the same time."""
    try:
        found = os.stat(path)  # noqa: PTH116 as below
    except OSError:
        return None
    age = time.time_ns() - found.st_mtime_ns
    return (found.st_ino, found.st_size, found.st_mtime_ns) if age > _TICK or age < -_TICK else None
