"""The heartbeat: one thread per worker, one row for all its runs, so a blocked event loop does not lose leases.

The same thread looks for the runs of workers that went away: a beat that is also a check frees a bounded number of
them, and checks follow each other while there were some.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta

from holdfast.errors import StoreError
from holdfast.ports.leases import Beat, Heart

LOG = logging.getLogger("holdfast.worker")
AGAIN = 0.001
"""One check frees a bounded number of orphans; checks follow each other while there were some."""


class Heartbeat:
    """Beats every third of the lease, more often while the store does not answer.

    `check_interval` None: it never looks after the runs of others.
    """

    def __init__(
        self,
        heart: Heart,
        ttl: timedelta,
        progress: Callable[[], str],
        on_beat: Callable[[Beat], None],
        *,
        recovery: Callable[[], str] = str,
        check_interval: timedelta | None = timedelta(seconds=5),
        frees: int = 10,
        also: Callable[[], None] = lambda: None,
    ) -> None:
        self._heart = heart
        self._interval = ttl.total_seconds() / 3
        self._check_interval = None if check_interval is None else check_interval.total_seconds()
        self._frees = frees
        self._progress = progress
        self._recovery = recovery
        self._on_beat = on_beat
        self._also = also
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

    def leave(self) -> None:
        """Ends the thread without waiting for it."""
        self._stop.set()

    def _run(self) -> None:
        beat_at = time.monotonic() + self._interval
        check_at = self._next_check()
        while not self._stop.wait(max(0.0, min(beat_at, check_at) - time.monotonic())):
            is_check = time.monotonic() >= check_at
            try:
                self._also()
                beat = self._heart.beat(
                    self._progress(), recovery=self._recovery(), frees=self._frees if is_check else 0
                )
            except StoreError as error:
                pause = min(0.5, self._interval / 3)
                LOG.warning("heartbeat not accepted, trying again in %.1f s: %s", pause, error)
                beat_at = time.monotonic() + pause
                check_at = max(check_at, beat_at)
                continue
            except Exception:
                LOG.exception("heartbeat broke")
                beat_at = time.monotonic() + self._interval
                check_at = max(check_at, beat_at)
                continue
            beat_at = time.monotonic() + self._interval
            if is_check:
                check_at = time.monotonic() + AGAIN if beat.orphaned else self._next_check()
            self._on_beat(beat)
        self._heart.close()

    def _next_check(self) -> float:
        return float("inf") if self._check_interval is None else time.monotonic() + self._check_interval
