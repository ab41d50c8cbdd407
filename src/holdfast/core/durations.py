"""Durations as people write them: a `timedelta`, a number of seconds, or text such as ``"1h30m"``.

Parsing is exact (decimal arithmetic, rounded to the microsecond a `timedelta` can hold) and total: every input gives a
non-negative `timedelta` or `InvalidDuration`. Nothing falls back to a default.
"""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import TypeAlias

from holdfast.core.plurals import type_of
from holdfast.errors import InvalidDuration

__all__ = ["Duration", "format_duration", "parse_duration"]

Duration: TypeAlias = timedelta | int | float | str

ACCEPTED = 'Use a timedelta, a number of seconds, or text such as "500ms", "30s", "1h30m", "3d", "2w".'
MAX_TEXT = 100

_MICROSECOND = timedelta(microseconds=1)
_LONGEST = timedelta.max // _MICROSECOND

_MICROSECONDS: dict[str, int] = {
    name: size
    for names, size in (
        (("ms", "msec", "msecs", "millisecond", "milliseconds"), 1_000),
        (("s", "sec", "secs", "second", "seconds"), 1_000_000),
        (("m", "min", "mins", "minute", "minutes"), 60 * 1_000_000),
        (("h", "hr", "hrs", "hour", "hours"), 3_600 * 1_000_000),
        (("d", "day", "days"), 86_400 * 1_000_000),
        (("w", "week", "weeks"), 604_800 * 1_000_000),
        (("mo", "month", "months"), 2_629_800 * 1_000_000),
        (("y", "yr", "yrs", "year", "years"), 31_557_600 * 1_000_000),
    )
    for name in names
}

_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([a-z]+)\s*")
_NUMBER = re.compile(r"\s*[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*")
_NEGATIVE = re.compile(r"\s*-\s*[0-9.]")

_SHOWN = (("d", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000), ("ms", 1_000))


def parse_duration(value: Duration, *, what: str = "duration", most: timedelta = timedelta.max) -> timedelta:
    """Returns `value` as a non-negative `timedelta` of at most `most`. Raises `InvalidDuration`, which names `what` and
    the value."""
    if isinstance(value, bool):
        raise InvalidDuration(f"{what}: {value!r} is not a duration. {ACCEPTED}")
    if isinstance(value, timedelta):
        parsed = timedelta(value.days, value.seconds, value.microseconds)
    elif isinstance(value, str):
        parsed = _parse_text(value, what)
    elif isinstance(value, (int, float)):
        parsed = _parse_seconds(value, what)
    else:
        raise InvalidDuration(f"{what}: {type_of(value)} is not a duration. {ACCEPTED}")
    if parsed < timedelta(0):
        raise InvalidDuration(f"{what}: {_shown(value)} is negative, and a duration cannot be. {ACCEPTED}")
    if parsed > most:
        raise InvalidDuration(f"{what}: {_shown(value)} is too long: {most.days} days at most. {ACCEPTED}")
    return parsed


def format_duration(duration: timedelta) -> str:
    """The duration for people: its largest unit and the next smaller one, truncated (``"2 d 3 h"``)."""
    left = abs(duration) // _MICROSECOND
    sign = "-" if duration < timedelta(0) else ""
    for place, (unit, size) in enumerate(_SHOWN):
        count, rest = divmod(left, size)
        if not count:
            continue
        text = f"{sign}{count} {unit}"
        if size >= 1_000_000 and place + 1 < len(_SHOWN):
            smaller_unit, smaller_size = _SHOWN[place + 1]
            if smaller := rest // smaller_size:
                text += f" {smaller} {smaller_unit}"
        return text
    return f"{sign}{left / 1000:g} ms" if left else "0 s"


def _parse_seconds(value: int | float, what: str) -> timedelta:
    try:
        return timedelta(seconds=value)
    except (OverflowError, ValueError) as error:
        problem = "too long" if isinstance(error, OverflowError) and _is_finite(value) else "not a finite number"
        raise InvalidDuration(f"{what}: {_shown(value)} is {problem}. {ACCEPTED}") from None


def _parse_text(text: str, what: str) -> timedelta:
    if len(text) > MAX_TEXT:
        raise InvalidDuration(f"{what}: {_shown(text)} has more than {MAX_TEXT} characters. {ACCEPTED}")
    if _NUMBER.fullmatch(text):
        number = text.strip()
        raise InvalidDuration(
            f'{what}: "{number}" has no unit. Write "{number}s" for seconds, or the number without quotes. {ACCEPTED}'
        )
    if _NEGATIVE.match(text):
        raise InvalidDuration(f"{what}: {_shown(text)} is negative, and a duration cannot be. {ACCEPTED}")
    total = Decimal(0)
    seen: set[int] = set()
    lowered = text.lower()
    position = 0
    while part := _PART.match(lowered, position):
        number, unit = part.groups()
        size = _MICROSECONDS.get(unit)
        if size is None:
            raise InvalidDuration(f'{what}: {_shown(text)} has an unknown unit "{unit}". {ACCEPTED}')
        if size in seen:
            raise InvalidDuration(f'{what}: {_shown(text)} names the unit "{unit}" twice. {ACCEPTED}')
        seen.add(size)
        total += Decimal(number) * size
        position = part.end()
    if not seen or position != len(lowered):
        raise InvalidDuration(f"{what}: {_shown(text)} is not a duration. {ACCEPTED}")
    if total > _LONGEST:
        raise InvalidDuration(f"{what}: {_shown(text)} is too long. {ACCEPTED}")
    return _MICROSECOND * int(total.to_integral_value())


def _is_finite(value: int | float) -> bool:
    return isinstance(value, int) or value - value == 0


def _shown(value: Duration) -> str:
    """The value for a message: shortened, and safe for integers too large to print."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:100]}…"
