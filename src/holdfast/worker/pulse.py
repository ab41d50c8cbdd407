"""The worker's heartbeat at its lease manager, on its own thread."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Pulse:
    """Beats once per call of `tell`, later if the manager is slow; calls meanwhile become one more beat. The thread
    that keeps the store's lease only calls `tell`, so a manager that does not answer never delays it.
    """

    def __init__(self, beat: Callable[[], None]) -> None:
        self._beat = beat
        self._told = threading.Event()
        self._is_over = False
        self._thread: threading.Thread | None = None

    def tell(self) -> None:
        """Requests a beat, after the store has heard the worker. Does not wait. From one thread."""
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
        """Ends the thread. Waits at most a second for a pending beat."""
        self._is_over = True
        self._told.set()
        if self._thread is not None:
            self._thread.join(timeout=1)
