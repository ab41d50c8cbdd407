"""The heartbeat of one worker instance of a memory store."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol

from holdfast.ports.leases import Beat


class Renew(Protocol):
    """Renews an instance, as `Leasing.beat` does."""

    def __call__(
        self, instance: str, ttl: timedelta, progress: str, recovery: str, frees: int, *, takes_back: bool
    ) -> Beat: ...


class MemoryHeart:
    """The heartbeat of one instance of a memory store."""

    def __init__(self, renew: Renew, instance: str, ttl: timedelta) -> None:
        self._renew = renew
        self._instance = instance
        self._ttl = ttl

    def beat(self, progress: str = "", *, recovery: str = "", frees: int = 100, takes_back: bool = True) -> Beat:
        """See `ports.leases`."""
        return self._renew(self._instance, self._ttl, progress, recovery, frees, takes_back=takes_back)

    def close(self) -> None:
        """Has nothing to close."""
