"""Retry: validated when made, saturating when used, and the same instants for the same arguments."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.retry import LATEST, Retry
from holdfast.errors import InvalidRetry

NOW = datetime(2026, 1, 1, tzinfo=UTC)
second = timedelta(seconds=1)


def test_the_default_is_ten_attempts_from_one_second_doubling_to_a_hundred() -> None:
    retry = Retry()
    assert (retry.attempts, retry.first, retry.factor, retry.ceiling) == (10, second, 2.0, 100 * second)
    assert isinstance(retry.factor, float)


def test_units_are_in_the_types_after_construction() -> None:
    retry = Retry(5, first="1s", factor=2, ceiling="100s")
    assert retry == Retry(5, first=1, factor=2.0, ceiling=timedelta(seconds=100))
    assert (retry.first, retry.ceiling) == (second, 100 * second)
    assert hash(retry) == hash(Retry(5))
    with pytest.raises(FrozenInstanceError):
        retry.attempts = 6  # type: ignore[misc]


def test_zero_attempts_are_refused_with_what_they_could_mean() -> None:
    with pytest.raises(InvalidRetry, match=r"To try once.*write 1.*To retry without limit, write None"):
        Retry(0)


def test_none_is_unlimited() -> None:
    assert Retry(None).attempts is None
    assert Retry(None).next_at(10**9, NOW, 0) == NOW + 100 * second


def test_none_is_one_try() -> None:
    assert Retry.none == Retry(1)
    assert Retry.none.next_at(1, NOW, 0) is None


def test_attempts_count_the_first_try() -> None:
    retry = Retry(3)
    assert retry.next_at(1, NOW, 0) == NOW + second
    assert retry.next_at(2, NOW, 0) == NOW + 2 * second
    assert retry.next_at(3, NOW, 0) is None
    assert retry.next_at(4, NOW, 0) is None


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 1), (2, 2), (3, 4), (6, 32), (7, 64), (8, 100), (9, 100), (2_000, 100), (10**6, 100)]
)
def test_the_wait_grows_by_the_factor_up_to_the_ceiling(failures: int, seconds: int) -> None:
    assert Retry(None).delay(failures, 0) == seconds * second


def test_a_fractional_factor_is_exact_to_the_microsecond() -> None:
    assert Retry(first="1s", factor=1.5).delay(3, 0) == timedelta(seconds=2.25)
    assert Retry(first="1s", factor=1).delay(1_000, 0) == second


def test_the_ceiling_may_equal_first() -> None:
    assert Retry(first="5s", ceiling="5s").delay(4, 0) == 5 * second


def test_jitter_leaves_between_half_and_all_of_the_wait() -> None:
    retry = Retry(first="10s")
    assert retry.delay(1, 0) == 10 * second
    assert retry.delay(1, 0.5) == 7.5 * second
    assert timedelta(seconds=5) <= retry.delay(1, math.nextafter(1, 0)) <= timedelta(seconds=5, microseconds=1)
    assert retry.next_at(1, NOW, 0.5) == NOW + 7.5 * second


@pytest.mark.parametrize("jitter", [-0.001, 1, 1.5, math.nan, math.inf])
def test_jitter_outside_its_range_is_refused(jitter: float) -> None:
    with pytest.raises(
        InvalidRetry, match=r"^Retry: jitter is a random number from 0 up to, but not including, 1, not "
    ):
        Retry().delay(1, jitter)


@pytest.mark.parametrize("failures", [0, -1])
def test_a_delay_follows_a_failure(failures: int) -> None:
    with pytest.raises(InvalidRetry, match=f"^Retry: a delay follows a failure, .* at least 1, not {failures}"):
        Retry().delay(failures, 0)


def test_backoff_that_would_overflow_stops_at_the_ceiling() -> None:
    assert Retry(None, factor=2.0**1000).delay(1000, 0) == 100 * second
    assert Retry(None, factor=10**400).delay(2, 0) == 100 * second
    assert Retry(None, factor=10**400).factor == 1.7976931348623157e308


def test_no_wait_stays_no_wait() -> None:
    assert Retry(None, first=0, factor=10).delay(5, 0) == timedelta(0)
    assert Retry(None, first=0, factor=10).delay(10**6, 0) == timedelta(0)
    assert Retry(None, first=0, ceiling=0).next_at(7, NOW, 0.3) == NOW


def test_a_wait_of_ages_ends_at_the_latest_instant_that_can_be_shown() -> None:
    retry = Retry(None, first=timedelta.max, ceiling=timedelta.max)
    assert retry.next_at(1, NOW, 0) == LATEST
    assert retry.next_at(1, NOW, 0.99) == LATEST
    years = Retry(None, first="100y", ceiling="100y")
    assert years.next_at(1, NOW, 0) == NOW + timedelta(seconds=100 * 31_557_600)
    assert Retry(None, first=LATEST - NOW, ceiling=LATEST - NOW).next_at(1, NOW, 0) == LATEST
    assert datetime(9999, 1, 1, tzinfo=UTC) == LATEST


def test_absurdly_many_attempts_saturate() -> None:
    assert Retry(10**30).attempts == 2**31 - 1
    assert Retry(2**31 - 1).attempts == 2**31 - 1
    assert Retry(2**31 - 2).attempts == 2**31 - 2


@pytest.mark.spec("openworkflow.O72", "openworkflow.O74")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attempts": -1}, "Retry: attempts cannot be negative (-1): it counts tries. None is unlimited."),
        ({"attempts": True}, "Retry: attempts is a whole number or None (unlimited), not True."),
        ({"attempts": 2.0}, "Retry: attempts is a whole number or None (unlimited), not 2.0."),
        ({"attempts": "3"}, "Retry: attempts is a whole number or None (unlimited), not '3'."),
        ({"factor": 0.99}, "Retry: factor is a finite number of at least 1 (a constant wait), not 0.99."),
        ({"factor": -2}, "Retry: factor is a finite number of at least 1 (a constant wait), not -2.0."),
        ({"factor": math.nan}, "Retry: factor is a finite number of at least 1 (a constant wait), not nan."),
        ({"factor": math.inf}, "Retry: factor is a finite number of at least 1 (a constant wait), not inf."),
        ({"factor": -(10**400)}, "Retry: factor is a finite number of at least 1 (a constant wait), not -1.0."),
        ({"factor": True}, "Retry: factor is a number of at least 1, not True."),
        ({"factor": "2"}, "Retry: factor is a number of at least 1, not '2'."),
        ({"first": "-1s"}, "Retry: first: '-1s' is negative"),
        ({"first": math.nan}, "Retry: first: nan is not a finite number"),
        ({"first": "soon"}, "Retry: first: 'soon' is not a duration"),
        ({"first": True}, "Retry: first: True is not a duration"),
        ({"ceiling": "-1s"}, "Retry: ceiling: '-1s' is negative"),
        ({"ceiling": 1e300}, "Retry: ceiling: 1e+300 is too long"),
        (
            {"first": "200s"},
            (
                "Retry: ceiling (1 min 40 s) is shorter than first (3 min 20 s). "
                "Give a longer ceiling=, or a shorter first=."
            ),
        ),
        ({"first": 1, "ceiling": 0.999999}, "Retry: ceiling (999 ms) is shorter than first (1 s)."),
    ],
)
def test_a_policy_that_cannot_be_is_refused_when_it_is_made(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRetry) as caught:
        Retry(**options)
    assert message in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_a_policy_is_stored_and_read_back() -> None:
    for retry in (Retry(), Retry(None, first="1.5s", factor=1.25), Retry.none, Retry(first=0, ceiling=timedelta.max)):
        assert msgspec.json.decode(msgspec.json.encode(retry), type=Retry) == retry
    assert msgspec.json.encode(Retry(5)) == b'{"attempts":5,"first":"PT1S","factor":2.0,"ceiling":"PT100S"}'


@given(
    st.integers(1, 10**4),
    st.floats(1, 1e308),
    st.timedeltas(timedelta(0), timedelta(days=3650)),
    st.timedeltas(timedelta(0), timedelta.max),
    st.floats(0, 1, exclude_max=True),
)
def test_every_wait_lies_between_half_and_all_of_first_to_ceiling(
    failures: int, factor: float, first: timedelta, more: timedelta, jitter: float
) -> None:
    ceiling = first + min(more, timedelta.max - first)
    retry = Retry(None, first=first, factor=factor, ceiling=ceiling)
    wait = retry.delay(failures, jitter)
    micro = timedelta(microseconds=1)
    assert first / 2 - micro <= wait <= ceiling
    at = retry.next_at(failures, NOW, jitter)
    assert at is not None
    assert NOW <= at <= LATEST
    assert retry.delay(failures, 0) <= retry.delay(failures + 1, 0)
