"""Durations: what is accepted means exactly what it says, and everything else is refused with a hint."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.durations import format_duration, parse_duration
from holdfast.errors import InvalidDuration, InvalidInput

ACCEPTED = 'Use a timedelta, a number of seconds, or text such as "500ms", "30s", "1h30m", "3d", "2w".'

UNITS = {
    0.001: ["ms", "msec", "msecs", "millisecond", "milliseconds"],
    1: ["s", "sec", "secs", "second", "seconds"],
    60: ["m", "min", "mins", "minute", "minutes"],
    3_600: ["h", "hr", "hrs", "hour", "hours"],
    86_400: ["d", "day", "days"],
    604_800: ["w", "week", "weeks"],
    2_629_800: ["mo", "month", "months"],
    31_557_600: ["y", "yr", "yrs", "year", "years"],
}


@pytest.mark.parametrize(("unit", "seconds"), [(unit, size) for size, units in UNITS.items() for unit in units])
def test_every_unit_has_its_length_in_any_case(unit: str, seconds: float) -> None:
    expected = timedelta(seconds=seconds)
    assert parse_duration(f"1{unit}") == expected
    assert parse_duration(f" 1  {unit.upper()} ") == expected
    assert parse_duration(f"3{unit}") == 3 * expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500ms", timedelta(milliseconds=500)),
        ("30s", timedelta(seconds=30)),
        ("1h30m", timedelta(minutes=90)),
        ("1h 30m", timedelta(minutes=90)),
        ("30m 1h", timedelta(minutes=90)),
        ("1.5h", timedelta(minutes=90)),
        (".5s", timedelta(milliseconds=500)),
        ("3d", timedelta(days=3)),
        ("2w", timedelta(days=14)),
        ("1y2mo3w4d5h6m7s8ms", timedelta(seconds=31_557_600 + 2 * 2_629_800 + 3 * 604_800 + 4 * 86_400 + 18_367.008)),
        ("0s", timedelta(0)),
        ("0.0000014s", timedelta(microseconds=1)),
        ("0.1ms", timedelta(microseconds=100)),
        ("999999999d", timedelta(days=999_999_999)),
        ("0" * 98 + "1s", timedelta(seconds=1)),
    ],
)
@pytest.mark.spec("openworkflow.O99")
def test_text_is_read_exactly(text: str, expected: timedelta) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (30, timedelta(seconds=30)),
        (0, timedelta(0)),
        (0.25, timedelta(milliseconds=250)),
        (timedelta(0), timedelta(0)),
        (timedelta.max, timedelta.max),
    ],
)
@pytest.mark.spec("openworkflow.O99")
def test_numbers_are_seconds_and_timedeltas_stay(value: Any, expected: timedelta) -> None:
    assert parse_duration(value) == expected


def test_a_subclass_of_timedelta_becomes_a_plain_one() -> None:
    class Long(timedelta):
        pass

    assert type(parse_duration(Long(days=1, seconds=2, microseconds=3))) is timedelta
    assert parse_duration(Long(days=1, seconds=2, microseconds=3)) == timedelta(days=1, seconds=2, microseconds=3)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (True, "timeout: True is not a duration."),
        (False, "timeout: False is not a duration."),
        (None, "timeout: a NoneType is not a duration."),
        (b"3s", "timeout: a bytes is not a duration."),
        (float("nan"), "timeout: nan is not a finite number."),
        (float("inf"), "timeout: inf is not a finite number."),
        (float("-inf"), "timeout: -inf is not a finite number."),
        (1e300, "timeout: 1e+300 is too long."),
        (10**400, "timeout: a number of 1329 bits is too long."),
        (10**20, "timeout: 100000000000000000000 is too long."),
        (-1, "timeout: -1 is negative, and a duration cannot be."),
        (-0.5, "timeout: -0.5 is negative, and a duration cannot be."),
        (timedelta(microseconds=-1), "is negative, and a duration cannot be."),
        ("-5s", "timeout: '-5s' is negative, and a duration cannot be."),
        (" - 5s", "timeout: ' - 5s' is negative, and a duration cannot be."),
        ("", "timeout: '' is not a duration."),
        ("  ", "timeout: '  ' is not a duration."),
        ("s", "timeout: 's' is not a duration."),
        ("soon", "timeout: 'soon' is not a duration."),
        ("1h soon", "timeout: '1h soon' is not a duration."),
        ("1m30", "timeout: '1m30' is not a duration."),
        ("1e3s", "timeout: '1e3s' has an unknown unit \"e\"."),
        ("+5s", "timeout: '+5s' is not a duration."),
        ("1,5s", "timeout: '1,5s' is not a duration."),
        ("٣s", "timeout: '٣s' is not a duration."),
        ("5 parsecs", "timeout: '5 parsecs' has an unknown unit \"parsecs\"."),
        ("5us", "timeout: '5us' has an unknown unit \"us\"."),
        ("1h 2hours", "timeout: '1h 2hours' names the unit \"hours\" twice."),
        ("9" * 50 + "y", "is too long."),
        ("1000000000d", "timeout: '1000000000d' is too long."),
        ("30", 'timeout: "30" has no unit. Write "30s" for seconds, or the number without quotes.'),
        (" 1.5 ", 'timeout: "1.5" has no unit. Write "1.5s" for seconds'),
        ("5.", 'timeout: "5." has no unit.'),
        (".5", 'timeout: ".5" has no unit.'),
        ("-30", 'timeout: "-30" has no unit.'),
    ],
)
def test_everything_else_is_refused_with_what_is_accepted(value: Any, problem: str) -> None:
    with pytest.raises(InvalidDuration) as caught:
        parse_duration(value, what="timeout")
    assert problem in str(caught.value)
    assert str(caught.value).startswith("timeout: ")
    assert str(caught.value).endswith(f" {ACCEPTED}")
    assert isinstance(caught.value, (InvalidInput, ValueError))


def test_without_a_name_it_is_called_duration() -> None:
    with pytest.raises(InvalidDuration, match=r"^duration: 'x' is not a duration\."):
        parse_duration("x")


def test_long_text_is_refused_before_it_is_read_and_shown_shortened() -> None:
    assert parse_duration("0" * 99 + "s") == timedelta(0)
    text = "1" * 100 + "s"
    with pytest.raises(InvalidDuration) as caught:
        parse_duration(text)
    assert str(caught.value) == f"duration: {text!r} has more than 100 characters. {ACCEPTED}"
    with pytest.raises(InvalidDuration) as caught:
        parse_duration("1" * 10**6 + "s")
    assert str(caught.value) == f"duration: '{'1' * 99}… has more than 100 characters. {ACCEPTED}"


def test_integers_are_shown_up_to_256_bits() -> None:
    with pytest.raises(InvalidDuration, match=f"^duration: {2**256 - 1} is too long"):
        parse_duration(2**256 - 1)
    with pytest.raises(InvalidDuration, match=r"^duration: a number of 257 bits is too long"):
        parse_duration(2**256)


@pytest.mark.parametrize(
    ("duration", "shown"),
    [
        (timedelta(days=2, hours=3, minutes=59), "2 d 3 h"),
        (timedelta(days=2), "2 d"),
        (timedelta(days=2, minutes=5), "2 d"),
        (timedelta(days=400, hours=1), "400 d 1 h"),
        (timedelta(hours=1, minutes=30), "1 h 30 min"),
        (timedelta(minutes=1, seconds=1, milliseconds=5), "1 min 1 s"),
        (timedelta(seconds=59, milliseconds=999), "59 s 999 ms"),
        (timedelta(seconds=30), "30 s"),
        (timedelta(milliseconds=250), "250 ms"),
        (timedelta(milliseconds=1, microseconds=7), "1 ms"),
        (timedelta(microseconds=7), "0.007 ms"),
        (timedelta(0), "0 s"),
        (timedelta(seconds=-30), "-30 s"),
        (timedelta(hours=-25), "-1 d 1 h"),
    ],
)
def test_durations_are_shown_in_at_most_two_units(duration: timedelta, shown: str) -> None:
    assert format_duration(duration) == shown


@given(st.timedeltas(min_value=timedelta(0)))
def test_what_is_written_in_units_reads_back(duration: timedelta) -> None:
    whole, micro = divmod(duration, timedelta(milliseconds=1))
    assert parse_duration(f"{whole}ms") == whole * timedelta(milliseconds=1)
    assert parse_duration(f"{whole}.{micro // timedelta(microseconds=1):03}ms") == duration


@given(st.text(max_size=120) | st.integers() | st.floats() | st.timedeltas() | st.booleans() | st.none())
def test_any_value_gives_a_duration_or_the_one_error(value: Any) -> None:
    try:
        parsed = parse_duration(value)
    except InvalidDuration as error:
        problem = str(error)
    else:
        assert parsed >= timedelta(0)
        return
    assert ACCEPTED in problem


@given(st.timedeltas())
def test_every_terminal_can_show_it(duration: timedelta) -> None:
    """Contract: no character that a terminal without UTF-8 would show as something longer."""
    assert format_duration(duration).isascii()
