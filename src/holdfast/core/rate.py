"""Rates as people write them ("100/m"), and the rule that keeps them (GCRA). Pure.

The rule stores one instant, `until`: the time up to which the rate is used up. Nothing drifts, and nothing has to be
refilled while there is no work.
"""

from __future__ import annotations

import re

import msgspec

from holdfast.errors import InvalidInput

_UNITS = {"s": 1_000_000, "m": 60_000_000, "min": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_RATE = re.compile(r"\s*([0-9]{1,9})\s*/\s*([a-z]+)\s*")
_SMOOTH = 100_000
"""Microseconds of the rate that may be used at once, since a worker checks its queues only now and then."""

ACCEPTED = 'Write a whole number and a unit: "50/s", "100/m", "1000/h", "5000/d".'


class Rate(msgspec.Struct, frozen=True, gc=False):
    """That many in each `unit`."""

    count: int
    unit: str

    @property
    def interval(self) -> int:
        """Microseconds between two, rounded up: never more than the rate."""
        return -(-_UNITS[self.unit] // self.count)

    @property
    def burst(self) -> int:
        """How many may come at once."""
        return max(1, _SMOOTH // self.interval)

    def __str__(self) -> str:
        return f"{self.count}/{self.unit}"


def parse_rate(value: object, what: str = "rate") -> Rate:
    """The rate. Raises `InvalidInput`, which says what is wrong."""
    if not isinstance(value, str):
        raise InvalidInput(f"{what}={value!r}: not a rate. {ACCEPTED}")
    found = _RATE.fullmatch(value)
    if found is None or found[2] not in _UNITS:
        raise InvalidInput(f"{what}={value[:80]!r}: not a rate. {ACCEPTED}")
    count, unit = int(found[1]), "m" if found[2] == "min" else found[2]
    if not count:
        raise InvalidInput(f"{what}={value!r}: nothing would ever begin. Pause the queue, or give at least 1.")
    if count > _UNITS[unit]:
        raise InvalidInput(f"{what}={value!r}: the maximum is 1,000,000 per second. Give less.")
    return Rate(count, unit)


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
