"""`Retry`: when a failed step, or a failed workflow, is tried again.

Pure: the caller gives the number of failures, the time and a random number, and gets the time of the next try, or None
when no attempts are left. Policies are validated when they are made, never when they are used, and no policy can
overflow: delays stop at `ceiling`, instants at `LATEST`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from holdfast.core.durations import Duration, format_duration, parse_duration
from holdfast.core.instants import LATEST, later
from holdfast.errors import InvalidDuration, InvalidRetry

__all__ = ["LATEST", "Retry"]

DEFAULT_ATTEMPTS = 10
MAX_ATTEMPTS = 2**31 - 1

Errors: TypeAlias = type[Exception] | tuple[type[Exception], ...]
"""Exception classes: one, or several."""


@dataclass(frozen=True, init=False, eq=False)
class Retry:
    """How often to try, and how long to wait in between.

    `attempts` counts the first try; None is unlimited. After failure n the wait is ``first * factor ** (n - 1)``, at
    most `ceiling`, then randomly shortened to between half and all of that, so that things that failed together do not
    retry together.

    Errors decide too: `never` names exceptions that are not retried, `on` the only ones that are, and `when` is a
    function of the exception that returns whether to retry. All that are given must agree. An exception that the step
    declares with `raises=` is retried if `on` names it or `when` says so, and is then raised unchanged.
    """

    attempts: int | None
    first: timedelta
    factor: float
    ceiling: timedelta
    if TYPE_CHECKING:  # not fields: a policy that is stored is numbers and times, and never names code
        on: tuple[type[Exception], ...]
        never: tuple[type[Exception], ...]
        when: Callable[[Exception], bool] | None

    none: ClassVar[Retry]
    """One try: no retry at all."""

    def __init__(
        self,
        attempts: int | None = DEFAULT_ATTEMPTS,
        *,
        first: Duration = "1s",
        factor: float = 2,
        ceiling: Duration = "100s",
        on: Errors = (),
        never: Errors = (),
        when: Callable[[Exception], bool] | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "attempts", _checked_attempts(attempts))
        put(self, "first", _checked_duration(first, "first"))
        put(self, "factor", _checked_factor(factor))
        put(self, "ceiling", _checked_duration(ceiling, "ceiling"))
        put(self, "on", _checked_errors(on, "on"))
        put(self, "never", _checked_errors(never, "never"))
        if when is not None and not callable(when):
            raise InvalidRetry(f"Retry: when is a function that takes the exception and returns a bool, not {when!r}.")
        put(self, "when", when)
        if self.ceiling < self.first:
            raise InvalidRetry(
                f"Retry: ceiling ({format_duration(self.ceiling)}) is shorter than first "
                f"({format_duration(self.first)}). Give a longer ceiling=, or a shorter first=."
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Retry) and self._all() == other._all()

    def __hash__(self) -> int:
        return hash(self._all())

    def _all(self) -> tuple[object, ...]:
        return (self.attempts, self.first, self.factor, self.ceiling, self.on, self.never, self.when)

    def wants(self, error: BaseException) -> bool | None:
        """Whether to retry after that error, by `on`, `never` and `when`; None if none of them is given, or only
        `never`, which does not name it. Errors of `when` pass through."""
        if self.never and isinstance(error, self.never):
            return False
        if self.on and not isinstance(error, self.on):
            return False
        if self.when is not None:
            return isinstance(error, Exception) and bool(self.when(error))
        return True if self.on else None

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


def _checked_errors(given: Errors, name: str) -> tuple[type[Exception], ...]:
    kinds = given if isinstance(given, tuple) else (given,)
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            raise InvalidRetry(
                f"Retry: {name} takes exception classes, such as {name}=(ConnectionError,), not {kind!r}."
            )
    return kinds


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


Retry.on, Retry.never, Retry.when = (), (), None  # of a policy that was read back
Retry.none = Retry(1)
