"""Rates as people write them ("100/m"), and the rule that keeps them (GCRA). Pure.

The rule stores one instant, `until`: the time up to which the rate is used up. Nothing drifts, and nothing has to be
refilled while there is no work.
"""

from __future__ import annotations

import re
from datetime import timedelta

import msgspec

from holdfast.core.durations import parse_duration
from holdfast.errors import InvalidDuration, InvalidInput

_RATE = re.compile(r"\s*([0-9]+)\s*/\s*([0-9.]*)\s*([a-z]+)\s*")
_SMOOTH = 100_000
"""Microseconds of the rate that may be used at once, since a worker checks its queues only now and then."""

_LONGEST = 366 * 86_400_000_000
_MICROSECOND = timedelta(microseconds=1)

ACCEPTED = 'Write a whole number and a period: "50/s", "100/m", "1000/h", "10/30s".'


class Rate(msgspec.Struct, frozen=True, gc=False):
    """That many in each `unit`, a period such as "s" or "30s"."""

    count: int
    unit: str

    @property
    def interval(self) -> int:
        """Microseconds between two, rounded up: never more than the rate."""
        return -(-_micros(self.unit) // self.count)

    @property
    def burst(self) -> int:
        """The default burst: how many may begin at once."""
        return max(1, _SMOOTH // self.interval)

    def __str__(self) -> str:
        return f"{self.count}/{self.unit}"


def parse_rate(value: object, what: str = "rate") -> Rate:
    """The rate, or `InvalidInput` that says what is wrong with it."""
    found = _RATE.fullmatch(value) if isinstance(value, str) and len(value) <= 100 else None
    if found is None:
        raise InvalidInput(f"{what}={_short(value)} is not a rate. {ACCEPTED}")
    count, unit = int(found[1]), f"{found[2]}{'m' if found[3] == 'min' else found[3]}"
    try:
        micros = _micros(unit)
    except InvalidDuration:
        raise InvalidInput(f"{what}={value!r}: {found[3]!r} is not a period. {ACCEPTED}") from None
    if not count:
        raise InvalidInput(f"{what}={value!r}: no run would ever begin. Pause it instead, or give at least 1.")
    if count > micros or micros // count > _LONGEST:
        raise InvalidInput(f"{what}={value!r} is not between 1 per year and 1,000,000 per second. {ACCEPTED}")
    return Rate(count, unit)


def _micros(unit: str) -> int:
    return parse_duration(unit if unit[0].isdigit() else f"1{unit}", what="period") // _MICROSECOND


def _short(value: object) -> str:
    return repr(value[:80] if isinstance(value, str) else value)


class Allowance(msgspec.Struct, frozen=True, gc=False):
    """How many may begin now and, if none may, when the next one may."""

    count: int
    next_at: int


def allowance(interval: int, burst: int, until: int, now: int) -> Allowance:
    """What the rate allows at `now`. Times are in microseconds."""
    ahead = max(until - now, 0)
    slack = interval * (burst - 1) - ahead
    return Allowance(slack // interval + 1, now) if slack >= 0 else Allowance(0, now - slack)


def spent(interval: int, until: int, now: int, count: int) -> int:
    """`until` after that many have begun."""
    return max(until, now) + interval * count
