"""The heartbeat of one worker instance. It blocks and has its own connection, so that neither a busy event loop nor a
busy writer loses the lease."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

from holdfast.adapters.sqlite.attempt import Hints, Work, perform
from holdfast.adapters.sqlite.lease_operations import Renew
from holdfast.adapters.sqlite.link import Link
from holdfast.ports.clock import Clock
from holdfast.ports.leases import Beat


class SqliteHeart:
    """Beats for one instance. Called from one thread; `close` may come from another."""

    def __init__(
        self, instance: str, ttl: timedelta, link: Link, clock: Clock, on_commit: Callable[[Hints], None]
    ) -> None:
        self._instance = instance
        self._ttl = ttl
        self._link = link
        self._clock = clock
        self._on_commit = on_commit
        self._lock = threading.Lock()

    def beat(self, progress: str = "", *, recovery: str = "", frees: int = 100, takes_back: bool = True) -> Beat:
        """Renews the lease and frees the runs of dead instances. Raises `StoreUnavailable` if the store cannot be
        written."""
        work = Work(Renew(self._instance, self._ttl, progress, recovery, frees, takes_back))
        with self._lock:
            hints = perform([work], self._link, self._clock)
        if work.error is not None:
            raise work.error
        self._on_commit(hints)
        beat: Beat = work.result
        return beat

    def close(self) -> None:
        with self._lock:
            self._link.drop()
