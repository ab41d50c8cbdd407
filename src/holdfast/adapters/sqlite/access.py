"""What every part of a SQLite store stands on: the writer, the readers, and who may use them."""

from __future__ import annotations

import os
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import apsw

from holdfast.adapters.sql.listeners import Listeners
from holdfast.adapters.sqlite import audit
from holdfast.adapters.sqlite.board import Board
from holdfast.adapters.sqlite.connections import Durability, fetch, open_writable
from holdfast.adapters.sqlite.link import Link
from holdfast.adapters.sqlite.location import Location
from holdfast.adapters.sqlite.open_checks import discard
from holdfast.adapters.sqlite.readers import Readers
from holdfast.adapters.sqlite.transaction import Operation
from holdfast.adapters.sqlite.writer import Writer
from holdfast.adapters.system.forked import belongs_to_this_process
from holdfast.adapters.telemetry.logs import logged
from holdfast.core.shares import Claimers
from holdfast.errors import NotAllowedHere, StoreRefused
from holdfast.ports.clock import Clock
from holdfast.ports.telemetry import Tell
from holdfast.ports.transactions import holding

T = TypeVar("T")

MANY = 16
"""Up to this many runs are written on the event loop."""


class Access:
    """The connections of a SQLite store. The parts that implement the ports build on it."""

    def __init__(
        self, location: Location, clock: Clock, durability: Durability, readers: int = 10, tell: Tell | None = None
    ) -> None:
        self._location = location
        self._report = tell or logged().tell
        self._clock = clock
        self._durability: Durability = durability
        self._pid = os.getpid()
        self._listeners = Listeners(self._report)
        self._claimers = Claimers()
        self._readers = Readers(location.path, readers)
        link = self._link()
        link.connected()  # open as long as the store is: who closes last must be able to empty the log
        self._writer = Writer(link, clock, self._listeners.tell)
        belongs_to_this_process(self)
        self._end = weakref.finalize(self, _let_go, location, audit.watch(location.path), self._pid)

    def _write(self, operation: Operation[T], *, is_large: bool = False) -> Awaitable[T]:
        self._check_writable()
        return self._writer.run(operation, is_large=is_large)

    def _read(self, ask: Callable[[apsw.Connection], T]) -> T:
        self._check_process()
        return self._readers.read(ask)

    def _rows(self, statement: str, *values: object) -> Any:
        return self._read(lambda connection: fetch(connection, statement, values))

    def _link(self) -> Link:
        return Link(self._open_writable, Board(self._location.path), self._report)

    def _open_writable(self) -> apsw.Connection:
        return open_writable(self._location.path, self._durability)

    def _check_writable(self) -> None:
        """Raises if the caller has borrowed the only write transaction: it would wait for itself."""
        self._check_process()
        held, lent = holding.get(), self._writer.lent
        if held is not None and lent is not None and lent.is_open and held.connection is lent.connection:
            raise NotAllowedHere(
                "this code holds the only write transaction of the store, so another write could never begin. Start "
                "runs with connection=…, and do everything else before or after the transaction."
            )

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise StoreRefused(
                f"the store {self._location.url} was opened by process {self._pid} and cannot be used in the forked "
                f"child {os.getpid()}: SQLite's locks are not inherited. Open it in the child only, or close it "
                "before the fork."
            )


def _let_go(location: Location, watched: tuple[int, int], pid: int) -> None:
    if os.getpid() == pid:
        audit.unwatch(watched)
        with suppress(OSError):
            discard(location)
