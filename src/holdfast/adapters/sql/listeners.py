"""Tells listeners in this process that a run may need attention. These are hints: one may be lost, and polling finds
everything."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from holdfast.ports.facts import StoreTrouble
from holdfast.ports.telemetry import Tell


class Listeners:
    """A list of functions, called on the thread that made a write durable."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._all: tuple[Callable[[str], None], ...] = ()

    def add(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Adds a listener. Returns a function that removes it."""
        with self._lock:
            self._all = (*self._all, listener)

        def remove() -> None:
            with self._lock:
                self._all = tuple(each for each in self._all if each is not listener)

        return remove

    def tell(self, runs: Iterable[str]) -> None:
        """Calls every listener for every run. Errors of a listener are logged: the write is done."""
        listeners = self._all
        if not listeners:
            return
        for run in runs:
            for listener in listeners:
                try:
                    listener(run)
                except Exception as error:  # noqa: BLE001 - whatever it is, the write is done and the others still listen
                    self._tell(StoreTrouble("a listener of the store failed", error, is_known=False))
