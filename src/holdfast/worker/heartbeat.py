"""The heartbeat: one thread per worker, one row for all its runs, so a blocked event loop does not lose leases."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta

from holdfast.errors import StoreError
from holdfast.ports.leases import Beat, Heart

LOG = logging.getLogger("holdfast.worker")
AGAIN = 0.01
"""One beat frees a bounded number of orphans; passes follow each other while there were some."""


class Heartbeat:
    """Beats every third of the lease, more often while the store does not answer."""

    def __init__(
        self, heart: Heart, ttl: timedelta, progress: Callable[[], str], on_beat: Callable[[Beat], None]
    ) -> None:
        self._heart = heart
        self._interval = ttl.total_seconds() / 3
        self._progress = progress
        self._on_beat = on_beat
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holdfast-heartbeat", daemon=True)

    def start(self) -> None:
        """Begins to beat."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread; the lease then runs out by itself, or is released."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def _run(self) -> None:
        pause = self._interval
        while not self._stop.wait(pause):
            try:
                beat = self._heart.beat(self._progress())
            except StoreError as error:
                pause = min(0.5, self._interval / 3)
                LOG.warning("heartbeat not accepted, trying again in %.1f s: %s", pause, error)
                continue
            except Exception:
                pause = self._interval
                LOG.exception("heartbeat broke")
                continue
            pause = AGAIN if beat.orphaned else self._interval
            self._on_beat(beat)
        self._heart.close()
