"""Virtual time: it moves only when a test moves it."""

from __future__ import annotations

from datetime import datetime, timedelta
from threading import Lock

from holdfast.core.instants import instant_after, kept_instant
from holdfast.errors import InvalidInput

__all__ = ["VirtualClock"]


class VirtualClock:
    """A clock that tests and simulations move by hand. Safe to use from any thread."""

    def __init__(self, start: datetime) -> None:
        self._lock = Lock()
        self._now = kept_instant(start, "a clock")
        self._boots = 1
        self._uptime = timedelta()

    def now(self) -> datetime:
        """Wall time."""
        with self._lock:
            return self._now

    def boot(self) -> tuple[str, float]:
        """The boot id and the seconds since that boot."""
        with self._lock:
            return f"boot-{self._boots}", self._uptime.total_seconds()

    def advance(self, by: timedelta | float) -> None:
        """Moves both clocks forwards."""
        step = by if isinstance(by, timedelta) else timedelta(seconds=by)
        if step < timedelta():
            raise InvalidInput(f"advance() only moves time forwards; to move the wall clock back by {-step}, use set()")
        with self._lock:
            self._now = instant_after(self._now, step, "the clock")
            self._uptime += step

    def set(self, at: datetime) -> None:
        """Sets the wall clock, also backwards, as an operator or NTP does; no time passes."""
        moved = kept_instant(at, "a clock")
        with self._lock:
            self._now = moved

    def reboot(self) -> None:
        """Changes the boot id and counts seconds from zero again. Wall time stays."""
        with self._lock:
            self._boots += 1
            self._uptime = timedelta()
