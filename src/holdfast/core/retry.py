"""`Retry`: when a failed step, or a failed workflow, is tried again.

A pure table of instants: the caller gives the number of failures, the time and a random number, and gets the time of
the next try, or None when the budget is spent. Policies are validated when they are made, never when they are used, and
no policy can overflow: delays stop at `ceiling`, instants at `LATEST`.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from holdfast.core.durations import Duration, format_duration, parse_duration
from holdfast.core.instants import LATEST, later
from holdfast.errors import InvalidDuration, InvalidRetry

__all__ = ["LATEST", "Retry"]

DEFAULT_ATTEMPTS = 10
MAX_ATTEMPTS = 2**31 - 1


@dataclass(frozen=True, init=False)
class Retry:
    """How often to try, and how long to wait in between.

    `attempts` counts the first try; None is unlimited. After failure n the wait is
    ``first * factor ** (n - 1)``, at most `ceiling`, then randomly shortened to between half and all of that, so
    that what failed together does not retry together.
    """

    attempts: int | None
    first: timedelta
    factor: float
    ceiling: timedelta

    none: ClassVar[Retry]
    """One try: no retry at all."""

    def __init__(
        self,
        attempts: int | None = DEFAULT_ATTEMPTS,
        *,
        first: Duration = "1s",
        factor: float = 2,
        ceiling: Duration = "100s",
    ) -> None:
        put = object.__setattr__
        put(self, "attempts", _checked_attempts(attempts))
        put(self, "first", _checked_duration(first, "first"))
        put(self, "factor", _checked_factor(factor))
        put(self, "ceiling", _checked_duration(ceiling, "ceiling"))
        if self.ceiling < self.first:
            raise InvalidRetry(
                f"Retry: ceiling ({format_duration(self.ceiling)}) is shorter than first "
                f"({format_duration(self.first)}). Give a longer ceiling=, or a shorter first=."
            )

    def next_at(self, failures: int, now: datetime, jitter: float) -> datetime | None:
        """The time of the next try after `failures` failed ones, or None when no attempt is left."""
        if self.attempts is not None and failures >= self.attempts:
            return None
        return later(now, self.delay(failures, jitter))

    def delay(self, failures: int, jitter: float) -> timedelta:
        """How long to wait after `failures` failed tries; `jitter` is a random number in [0, 1), 0 the longest wait."""
        if failures < 1:
            raise InvalidRetry(f"Retry: a delay follows a failure, so failures is at least 1, not {failures}.")
        if not 0 <= jitter < 1:
            raise InvalidRetry(f"Retry: jitter is a random number from 0 up to, but not including, 1, not {jitter}.")
        return self._full_delay(failures) * (1 - jitter / 2)

    def _full_delay(self, failures: int) -> timedelta:
        if not self.first:
            return self.first
        try:
            seconds = self.first.total_seconds() * self.factor ** (failures - 1)
        except OverflowError:
            return self.ceiling
        return timedelta(seconds=seconds) if seconds < self.ceiling.total_seconds() else self.ceiling


def _checked_attempts(attempts: int | None) -> int | None:
    if attempts is None:
        return None
    if isinstance(attempts, bool) or not isinstance(attempts, int):
        raise InvalidRetry(f"Retry: attempts is a whole number or None (unlimited), not {attempts!r}.")
    if attempts < 0:
        raise InvalidRetry(f"Retry: attempts cannot be negative ({attempts}): it counts tries. None is unlimited.")
    if attempts == 0:
        raise InvalidRetry(
            "Retry: attempts=0 could mean two things. To try once, with no retry, write 1 (or Retry.none): attempts "
            "counts the first try. To retry without limit, write None."
        )
    return min(attempts, MAX_ATTEMPTS)


def _checked_factor(factor: float) -> float:
    if isinstance(factor, bool) or not isinstance(factor, (int, float)):
        raise InvalidRetry(f"Retry: factor is a number of at least 1, not {factor!r}.")
    try:
        checked = float(factor)
    except OverflowError:  # an int beyond any float: the sign decides, the size no longer matters
        checked = sys.float_info.max if factor > 0 else -1.0
    if not 1 <= checked < math.inf:
        raise InvalidRetry(f"Retry: factor is a finite number of at least 1 (a constant wait), not {checked!r}.")
    return checked


def _checked_duration(value: Duration, name: str) -> timedelta:
    try:
        return parse_duration(value, what=f"Retry: {name}")
    except InvalidDuration as error:
        raise InvalidRetry(str(error)) from None


Retry.none = Retry(1)
