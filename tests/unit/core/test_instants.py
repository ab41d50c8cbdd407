"""Instants that are kept: what is written can be read again, and nothing overflows on the way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.instants import (
    EARLIEST,
    LATEST,
    LONGEST_KEPT,
    earlier,
    instant,
    instant_after,
    kept_instant,
    later,
    micros,
    nearest_instant,
    span_micros,
)
from holdfast.errors import InvalidDuration, InvalidInput

EAST, WEST = timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))
HOSTILE = [
    datetime.max.replace(tzinfo=WEST),
    datetime.min.replace(tzinfo=EAST),
    datetime(9999, 12, 31, 23, 59, 59, tzinfo=WEST),
    datetime.max,  # noqa: DTZ901 - naive on purpose
    datetime.min,  # noqa: DTZ901
    datetime(2026, 1, 1),  # noqa: DTZ001
]
ANY = st.datetimes(timezones=st.just(UTC))


@pytest.mark.parametrize("at", HOSTILE)
def test_an_instant_that_could_not_be_read_again_is_refused(at: datetime) -> None:
    """Promise: refused where it comes in, and where it would be stored, with what and why."""
    with pytest.raises(InvalidInput, match=r"^deadline: .*(is naive|outside the years 1 to 9999)"):
        kept_instant(at, "deadline")
    with pytest.raises(InvalidInput):
        micros(at)


def test_what_is_no_instant_at_all_is_refused() -> None:
    with pytest.raises(InvalidInput, match="deadline: a str is not an instant"):
        kept_instant("2026-01-01", "deadline")


@given(st.datetimes(timezones=st.sampled_from([UTC, EAST, WEST])))
def test_every_instant_that_is_taken_is_read_back(at: datetime) -> None:
    """Promise: what `kept_instant` lets through, `micros` stores and `instant` reads."""
    try:
        kept = kept_instant(at, "x")
    except InvalidInput:
        return
    assert kept == at
    assert kept.utcoffset() == timedelta()
    assert instant(micros(kept)) == kept


@given(ANY, st.timedeltas(timedelta(), timedelta.max))
def test_arithmetic_stops_at_the_ends_of_the_calendar(at: datetime, span: timedelta) -> None:
    """Promise: never an OverflowError, never the wrong side, and exact in between."""
    after, before = later(at, span), earlier(at, span)
    assert after >= at or after == LATEST
    assert EARLIEST <= before <= at
    assert after == max(at, LATEST) or after - at == span
    assert micros(before) <= micros(at)
    assert micros(at) <= micros(after)
    assert 0 <= (span_micros(span) or 0) <= LONGEST_KEPT // timedelta(microseconds=1) < 2**62


def test_both_hours_of_an_autumn_night_are_kept_apart() -> None:
    """Promise: the second 2:30 of the night is an hour after the first, although Python says that they are equal."""
    first = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    second = first.replace(fold=1)
    assert first == second
    assert micros(second) - micros(first) == 3_600_000_000


@given(st.integers())
def test_any_stored_number_has_a_nearest_instant(value: int) -> None:
    """Promise: exact where there is one, else an end of the calendar."""
    found = nearest_instant(value)
    if micros(found) != value:
        with pytest.raises(OverflowError):
            instant(value)


def test_a_duration_past_the_calendar_is_refused_by_name() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(InvalidDuration, match=r"^delay: .* after the year 9998"):
        instant_after(now, timedelta.max, "delay")
    assert instant_after(now, timedelta(days=1), "delay") == datetime(2026, 1, 2, tzinfo=UTC)
