"""Instants that are stored: one rule for all that a store, a journal or a clock is given.

What is written must be readable again. So an instant is aware and lies in the years 1 to 9999 of UTC, for which Python
has a `datetime`. One with an offset may lie outside: 9999-12-31T23:59:59-12:00 is in the year 10000 of UTC. What a user
gives is checked on entry (`kept_instant`, `instant_after`); what the engine computes stops at the end of the calendar
(`later`, `earlier`), which means never.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from holdfast.core.durations import Duration, parse_duration
from holdfast.core.plurals import type_of
from holdfast.errors import InvalidDuration, InvalidInput

EARLIEST = datetime.min.replace(tzinfo=UTC)
LATEST = datetime(9999, 1, 1, tzinfo=UTC)  # not datetime.max: that cannot be shown east of Greenwich

LONGEST_KEPT = timedelta(days=3_652_425)
"""10,000 years: the longest duration that a store computes with. Any instant plus this fits its integers."""

LONGEST_WAIT = timedelta(days=36_525)
"""100 years: the longest interval between two actions of a worker. A thread can wait that long."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST = (EARLIEST - _EPOCH) // _MICROSECOND
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def micros(at: datetime) -> int:
    """The instant as whole microseconds since 1970, exactly. Raises if it could not be read again."""
    return _of_utc(at) if type(at) is datetime and at.tzinfo is UTC else _computed(at)


def _computed(at: datetime) -> int:
    try:
        span = at - _EPOCH
    except TypeError:
        raise InvalidInput(_naive("an instant", at)) from None
    value = (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds  # a division takes five times as long
    if not _FIRST <= value <= _LAST:
        raise InvalidInput(_outside("an instant", at))
    return value


_of_utc: Callable[[datetime], int] = lru_cache(maxsize=256)(_computed)
"""A turn's instant is in several columns, so it is computed once. Elsewhere equal instants may differ: both hours of an
autumn night are equal to Python."""


def instant(value: int) -> datetime:
    """The inverse of `micros`. Raises `OverflowError` for a number that it never returns."""
    return _EPOCH + value * _MICROSECOND


def nearest_instant(value: int) -> datetime:
    """Like `instant`, for any number: outside the calendar it is the first or last instant."""
    return instant(min(max(value, _FIRST), _LAST))


def span_micros(span: timedelta | None) -> int | None:
    """A duration as a store computes with it: whole microseconds, at most `LONGEST_KEPT`; None stays None."""
    return None if span is None else min(span, LONGEST_KEPT) // _MICROSECOND


def kept_instant(at: object, what: str) -> datetime:
    """The given instant in UTC. Raises `InvalidInput`, which names `what` it was given for."""
    if not isinstance(at, datetime):
        raise InvalidInput(f"{what}: {type_of(at)} is not an instant. Give an aware datetime.")
    if at.utcoffset() is None:
        raise InvalidInput(_naive(what, at))
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise InvalidInput(_outside(what, at)) from None


def instant_after(now: datetime, span: timedelta, what: str) -> datetime:
    """The instant that long from now. Raises `InvalidDuration`, which names `what` it was given for."""
    if span > LATEST - now:
        raise InvalidDuration(f"{what}: {span.days} days from now is after the year 9998. Give a shorter duration.")
    return now + span


def instant_before(now: datetime, value: Duration | datetime, what: str) -> datetime:
    """The instant that a user means: a duration before now, or the instant itself, also as ISO 8601 text."""
    at = value
    if isinstance(value, str):
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            at = value
        else:
            if at.tzinfo is None:
                raise InvalidInput(f"{what}={value!r} has no time zone: add Z for UTC, or an offset such as +02:00")
    if isinstance(at, datetime):
        return kept_instant(at, what)
    try:
        return earlier(now, parse_duration(at, what=what))
    except InvalidDuration as error:
        raise InvalidInput(f"{error} Or give an instant such as 2026-07-01T12:00Z.") from None


def later(at: datetime, span: timedelta) -> datetime:
    """The instant that much later, but never past the end of the calendar, which never comes."""
    return at + span if span < LATEST - at else max(at, LATEST)


def earlier(at: datetime, span: timedelta) -> datetime:
    """The instant that much earlier, but never before the calendar begins."""
    return at - span if span < at - EARLIEST else EARLIEST


def _naive(what: str, at: datetime) -> str:
    return f"{what}: {at.isoformat()} is naive. Give an aware datetime: add tzinfo, as in datetime.now(UTC)."


def _outside(what: str, at: datetime) -> str:
    return f"{what}: {at.isoformat()} is outside the years 1 to 9999 of UTC. Give an instant in between."
