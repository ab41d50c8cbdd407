"""Rates: how they are written, and the rule that keeps them."""

from __future__ import annotations

from random import Random

import pytest

from holdfast.core.rate import Rate, allowance, parse_rate, spent
from holdfast.errors import InvalidInput

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("text", "rate", "interval", "burst"),
    [
        ("50/s", Rate(50, "s"), 20_000, 5),
        ("100/m", Rate(100, "m"), 600_000, 1),
        (" 100 / min ", Rate(100, "m"), 600_000, 1),
        ("10/30s", Rate(10, "30s"), 3_000_000, 1),
        ("3 / 0.5 h", Rate(3, "0.5h"), 600_000_000, 1),
        ("7/d", Rate(7, "d"), 12_342_857_143, 1),
        ("1000000/s", Rate(1_000_000, "s"), 1, 100_000),
    ],
)
def test_a_rate_is_read(text: str, rate: Rate, interval: int, burst: int) -> None:
    """Contract: intervals are rounded up, so that the rate is never exceeded."""
    assert parse_rate(text) == rate
    assert (rate.interval, rate.burst) == (interval, burst)


@pytest.mark.parametrize(
    "value",
    ["50/x", "50", "/s", "0/s", "-1/s", "1.5/s", "50/s/s", "", "2000000/s", "1/0s", "1/400d", "1/..s", 7, None, b"1/s"],
)
def test_what_is_not_a_rate_is_refused(value: object) -> None:
    """Contract: with what was given and what to write."""
    with pytest.raises(InvalidInput, match="rate="):
        parse_rate(value)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("50/x", "rate='50/x': 'x' is not a period."),
        ("9999999999/s", "rate='9999999999/s' is not between 1 per year and 1,000,000 per second."),
        ("50", "rate='50' is not a rate."),
        (50, "rate=50 is not a rate."),
    ],
)
def test_what_is_wrong_with_a_rate_is_said(value: object, says: str) -> None:
    """Contract: in the words of the person who wrote it, and with examples."""
    with pytest.raises(InvalidInput) as caught:
        parse_rate(value)
    assert str(caught.value) == f'{says} Write a whole number and a period: "50/s", "100/m", "1000/h", "10/30s".'


def test_no_window_sees_more_than_the_rate(rng: Random) -> None:
    """Promise: whatever the times of asking, any window holds at most its share of the rate, and the burst; and one who
    asks often enough gets the rate."""
    for _ in range(200):
        interval, burst = rng.choice((1, 7, 1000, 20_000)), rng.choice((1, 2, 5, 50))
        now, until, times = 0, 0, list[int]()
        for _ in range(60):
            now += rng.choice((0, 1, interval // 2, interval, interval * 3))
            allowed = allowance(interval, burst, until, now)
            if not allowed.count:
                assert allowance(interval, burst, until, allowed.next_at).count
                assert not allowance(interval, burst, until, allowed.next_at - 1).count
            taken = rng.randint(0, allowed.count)
            until = spent(interval, until, now, taken) if taken else until
            times += [now] * taken
        for start in set(times):
            for width in (interval, interval * 10):
                assert sum(start <= time < start + width for time in times) <= width // interval + burst


def test_time_that_goes_back_gives_nothing_twice() -> None:
    """Contract: a clock that was set back lets nothing in until the rate is due again."""
    until = spent(SECOND, 0, 100 * SECOND, 1)
    assert allowance(SECOND, 1, until, 50 * SECOND).count == 0
