"""Time as the store sees it."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The clocks of the store's host."""

    def now(self) -> datetime:
        """Wall time, aware, in UTC: for timers, deadlines and event times."""
        ...

    def boot(self) -> tuple[str, float]:
        """The boot id, and seconds since that boot including suspend: for leases. Another boot id voids them all."""
        ...
