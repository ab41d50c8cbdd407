"""Read-only connections, lent out for one short snapshot at a time. Readers and writers never block each other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import apsw

from holdfast.adapters.sqlite.connections import open_readable, translated, until_free
from holdfast.errors import StoreUnavailable

T = TypeVar("T")

_PATIENCE = 2.0


class Readers:
    """One connection per concurrent read, up to a limit, kept for later reads."""

    def __init__(self, path: Path, most: int = 10) -> None:
        self._path = path
        self._free = threading.BoundedSemaphore(most)
        self._idle: list[apsw.Connection] = []  # append and pop are atomic
        self._is_closed = False

    def read(self, ask: Callable[[apsw.Connection], T]) -> T:
        """What `ask` returns. It must not keep the connection or a cursor."""
        if self._is_closed:
            raise StoreUnavailable("this store was closed. Open it again to continue.")
        with self._free:
            return self._read(ask)

    def _read(self, ask: Callable[[apsw.Connection], T]) -> T:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = None
        try:
            if connection is None:
                connection = until_free(lambda: open_readable(self._path), patience=_PATIENCE)
            try:
                answer = ask(connection)
            except (apsw.BusyError, apsw.LockedError):  # another process recovers the log: rare and short
                lent = connection
                answer = until_free(lambda: ask(lent), patience=_PATIENCE)
        except apsw.Error as error:
            if connection is not None:
                _close(connection)
            raise translated(error) from error
        except BaseException:
            self._give_back(connection)
            raise
        self._give_back(connection)
        return answer

    def close(self) -> None:
        """Closes the free connections; a lent one is closed when it is returned."""
        self._is_closed = True
        while self._idle:
            _close(self._idle.pop())

    def _give_back(self, connection: apsw.Connection | None) -> None:
        if connection is None:
            return
        if self._is_closed:
            _close(connection)
        else:
            self._idle.append(connection)


def _close(connection: apsw.Connection) -> None:
    with suppress(apsw.Error):  # it was only reading: nothing can be lost
        connection.close(force=True)
