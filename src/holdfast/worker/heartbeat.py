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
        self._beat_at = self._check_at = float("inf")
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
        pause = self.begin()
        while not self._stop.wait(pause):
            pause = self.beat()
        self.end()

    # -- one beat after the other: whoever drives them waits as long as each says --------------------------------------

    def begin(self) -> float:
        """Seconds until the first beat."""
        self._beat_at = self.time() + self._interval
        self._check_at = self._next_check()
        return self._pause()

    def beat(self) -> float:
        """One beat, now; seconds until the next."""
        is_check = self.time() >= self._check_at
        try:
            self._also()
            beat = self._heart.beat(self._progress(), recovery=self._recovery(), frees=self._frees if is_check else 0)
        except StoreError as error:
            pause = min(0.5, self._interval / 3)
            LOG.warning("heartbeat not accepted, trying again in %.1f s: %s", pause, error)
            return self._put_off(pause)
        except Exception:
            LOG.exception("heartbeat broke")
            return self._put_off(self._interval)
        self._beat_at = self.time() + self._interval
        if is_check:
            self._check_at = self.time() + AGAIN if beat.orphaned else self._next_check()
        self._on_beat(beat)
        return self._pause()

    def end(self) -> None:
        """No more beats."""
        self._heart.close()

    def time(self) -> float:
        """Seconds that nobody can set back."""
        return time.monotonic()

    def _put_off(self, seconds: float) -> float:
        self._beat_at = self.time() + seconds
        self._check_at = max(self._check_at, self._beat_at)
        return self._pause()

    def _pause(self) -> float:
        return max(0.0, min(self._beat_at, self._check_at) - self.time())

    def _next_check(self) -> float:
        return float("inf") if self._check_interval is None else self.time() + self._check_interval
