"""A circuit breaker: after enough failures in a row, bodies are not called for a while.

It belongs to a definition, and so to one process. Nothing of it is durable. It uses the event loop's time.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Literal

from holdfast.core.durations import Duration, format_duration, parse_duration
from holdfast.errors import CircuitOpen, InvalidInput


@dataclass(frozen=True, slots=True)
class Permit:
    """The right to make one call, and the epoch in which it was given."""

    epoch: int


class Breaker:
    """Opens after `failures` in a row, lets `probes` calls through after `reset`, closes when they all succeed."""

    def __init__(self, failures: int = 5, *, reset: Duration = "30s", probes: int = 1) -> None:
        for name, value in (("failures", failures), ("probes", probes)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidInput(f"Breaker({name}={value!r}): give a whole number of at least 1")
        self._limit = failures
        self._reset = parse_duration(reset, what="Breaker(reset=…)")
        self._probes = probes
        self._failures = 0
        self._epoch = 0
        self._opened_at: float | None = None
        self._out = 0
        self._good = 0

    @property
    def state(self) -> Literal["closed", "open", "half open"]:
        """The state a call would find now."""
        if self._opened_at is None:
            return "closed"
        return "half open" if self._is_rested() else "open"

    def ask(self) -> Permit:
        """Returns a permit for one call, or raises `CircuitOpen`."""
        if self._opened_at is not None:
            if not self._is_rested() or self._out >= self._probes:
                reset = format_duration(self._reset)
                raise CircuitOpen(f"the circuit breaker is open after {self._limit} failures; it rests for {reset}")
            self._out += 1
        return Permit(self._epoch)

    def succeeded(self, permit: Permit) -> None:
        """The call succeeded. Outcomes of an earlier epoch do not count."""
        if permit.epoch != self._epoch:
            return
        self._failures = 0
        if self._opened_at is not None:
            self._out -= 1
            self._good += 1
            if self._good >= self._probes:
                self._begin(None)

    def failed(self, permit: Permit) -> None:
        """The call failed, timed out or was dropped."""
        if permit.epoch != self._epoch:
            return
        self._failures += 1
        if self._opened_at is not None or self._failures >= self._limit:
            self._begin(_now())

    def _begin(self, opened_at: float | None) -> None:
        self._epoch += 1
        self._opened_at = opened_at
        self._failures = self._out = self._good = 0

    def _is_rested(self) -> bool:
        return self._opened_at is not None and _now() - self._opened_at >= self._reset.total_seconds()


def _now() -> float:
    return asyncio.get_running_loop().time()
