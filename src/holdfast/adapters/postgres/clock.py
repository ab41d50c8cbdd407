"""The server's clock, as this process knows it: a monotonic clock and the offset of the last answer.

Leases are judged on the server. The time of events, timers and deadlines is estimated here, so that it is the same
wherever a run is advanced, whatever this host's own clock says.
"""

from __future__ import annotations

import time
from datetime import datetime

from holdfast.adapters.system.clock import SystemClock
from holdfast.core.turn import instant, micros
from holdfast.ports.clock import Clock


class ServerClock:
    """An estimate of the server's wall clock; the boot is this host's. Usable from any thread."""

    def __init__(self) -> None:
        self._offset: int | None = None
        self._host = SystemClock()

    def now(self) -> datetime:
        """The server's time, within a round trip, and never ahead of the server when a request made now arrives there:
        a run that starts now is due at once, and a timer that is due here is due there."""
        return instant(time.monotonic_ns() // 1000 + (self._offset or 0))

    def boot(self) -> tuple[str, float]:
        """The boot of this host, which tells whether a process on this host is gone."""
        return self._host.boot()

    def saw(self, server: int, asked: int, answered: int) -> None:
        """Records that the server's time was `server` (µs since 1970) between these readings of `time.monotonic_ns`. A
        slow answer hardly narrows the estimate; an answer that contradicts it replaces it, since the clock was set."""
        least, most = server - answered // 1000, server - asked // 1000
        self._offset = least if self._offset is None else min(max(self._offset, least), most)


class Moments:
    """The time that functions are given: none, so that the server's clock counts, or a clock that tests move."""

    def __init__(self, given: Clock | None) -> None:
        self._given = given
        self.server: ServerClock = ServerClock()

    @property
    def clock(self) -> Clock:
        return self._given or self.server

    def wall(self) -> int | None:
        """The given wall time."""
        return None if self._given is None else micros(self._given.now())

    def lease(self) -> tuple[str | None, int | None]:
        """The given boot, and the microseconds since."""
        if self._given is None:
            return None, None
        boot, second = self._given.boot()
        return boot, int(second * 1_000_000)
