"""The worker's heartbeat at its lease manager, on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Pulse:
    """Beats once for each time it is told, later if the manager is slow: what comes meanwhile is one beat more.

    The thread that keeps the lease of the store only tells: a manager that does not answer holds it up for nothing.
    """

    def __init__(self, beat: Callable[[], None]) -> None:
        self._beat = beat
        self._told = threading.Event()
        self._is_over = False
        self._thread: threading.Thread | None = None

    def tell(self) -> None:
        """The store has heard the worker, so the manager is to hear it too. Does not wait. From one thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="holdfast-pulse", daemon=True)
            self._thread.start()
        self._told.set()

    def _run(self) -> None:
        while True:
            self._told.wait()
            self._told.clear()
            if self._is_over:
                return
            self._beat()

    def stop(self) -> None:
        """Ends the thread. A beat that the manager does not answer is waited for a second."""
        self._is_over = True
        self._told.set()
        if self._thread is not None:
            self._thread.join(timeout=1)
