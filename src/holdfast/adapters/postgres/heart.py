"""The heartbeat of one worker instance. It blocks and has its own connection, so that neither a busy event loop nor a
busy writer loses the lease."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from datetime import timedelta

from holdfast.adapters.postgres import statements as sql
from holdfast.adapters.postgres.clock import Moments
from holdfast.adapters.postgres.link import Link
from holdfast.adapters.sql.rows import maybe_instant
from holdfast.core.turn import instant
from holdfast.ports.leases import Beat

_MICROSECOND = timedelta(microseconds=1)


class PostgresHeart:
    """Beats for one instance. Called from one thread; `close` may come from another."""

    def __init__(
        self, instance: str, ttl: timedelta, link: Link, moments: Moments, tell: Callable[[Iterable[str]], None]
    ) -> None:
        self._instance = instance
        self._ttl = ttl
        self._link = link
        self._moments = moments
        self._tell = tell
        self._lock = threading.Lock()
        self._patience = ttl.total_seconds() / 2  # a connection that is dead on the other side is noticed by then

    def beat(self, progress: str = "", *, recovery: str = "", frees: int = 100, takes_back: bool = True) -> Beat:
        """Renews the lease and frees the runs of dead instances. Raises `StoreUnavailable` if the server does not
        answer."""
        values = (
            self._moments.wall(),
            *self._moments.lease(),
            self._instance,
            self._ttl // _MICROSECOND,
            progress,
            recovery,
            frees,
            takes_back,
        )
        with self._lock:
            asked = time.monotonic_ns()
            ((moment, has_lapsed, orphaned, *times, hints),) = self._link.ask(sql.BEAT, values, patience=self._patience)
            answered = time.monotonic_ns()
        if answered - asked < 1_000_000_000:  # a slow answer says little about the time
            self._moments.server.saw(moment, asked, answered)
        self._tell(hints)
        return Beat(instant(moment), has_lapsed, orphaned, *map(maybe_instant, times))

    def close(self) -> None:
        with self._lock:
            self._link.drop()
