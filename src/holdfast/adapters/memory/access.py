"""What every part of a memory store stands on: its tables, its lock, and its listeners."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from threading import Lock

from holdfast.adapters.memory.tables import Tables
from holdfast.adapters.memory.transaction import Transaction
from holdfast.adapters.system.clock import SystemClock
from holdfast.core.shares import Claimers
from holdfast.ports.clock import Clock


class Access:
    """The data of a memory store. The parts that implement the ports build on it."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = Lock()
        self._tables = Tables()
        self._listeners: list[Callable[[str], None]] = []
        self._claimers = Claimers()

    @contextmanager
    def _writing(self) -> Generator[Transaction]:
        """Runs one transaction; listeners are told after the lock is released."""
        with self._lock:
            write = Transaction(self._tables, self._clock.now())
            yield write
            listeners = list(self._listeners)
        for run in write.hints:
            for listener in listeners:
                with suppress(Exception):  # a hint may be lost; the write it announces is done
                    listener(run)
