"""Slots of cron expressions, across every change of a zone's offset."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from holdfast.core.cron import check_cron, cron_slots, is_fixed, zone_of
from holdfast.errors import InvalidSchedule
from tests.support.examples import count

ZONES = (
    "Europe/Berlin Europe/London Europe/Dublin Europe/Lisbon Europe/Istanbul America/New_York America/Sao_Paulo "
    "America/St_Johns America/Santiago America/Asuncion America/Nuuk Africa/Casablanca Africa/Cairo Asia/Tehran "
    "Asia/Gaza Asia/Kolkata Asia/Kathmandu Australia/Lord_Howe Pacific/Apia Pacific/Chatham"
).split()
YEARS = range(2018, 2028)
EXPRESSIONS = (
    "30 2 * * *",
    "0 3 * * *",
    "15,45 0,1,2,3 * * *",
    "59 23 * * *",
    "0 0 * * SUN",
    "10 2 L * *",
    "*/20 * * * *",
    "7 * * * *",
    "*/30 2 * * *",
    "5-50/15 1,2,3 * * *",
)
MINUTE = timedelta(minutes=1)


def model(expression: str, zone: ZoneInfo, since: datetime, until: datetime) -> Iterator[datetime]:
    """Minute by minute: with elapsed time a minute is a slot if its local time matches; a fixed time is a slot at the
    first minute that shows it, or that is the first to show a later one."""
    highest = (since - 2 * MINUTE).astimezone(zone).replace(tzinfo=None)
    at = since - MINUTE
    while at < until:
        wall = at.astimezone(zone).replace(tzinfo=None)
        if is_fixed(expression):
            passed = [highest + MINUTE * step for step in range(1, int((wall - highest) / MINUTE) + 1)]
            highest = max(highest, wall)
        else:
            passed = [wall]
        if at >= since and any(matches(expression, one) for one in passed):
            yield at
        at += MINUTE


@lru_cache
def parsed(expression: str) -> CronSim:
    return CronSim(expression, datetime(2000, 1, 1))  # noqa: DTZ001 - any local time will do


def matches(expression: str, wall: datetime) -> bool:
    """By cronsim's own rule for a single local minute."""
    sim = parsed(expression)
    return (
        wall.minute in sim.minutes
        and wall.hour in sim.hours
        and wall.month in sim.months
        and sim.match_day(wall.date())
    )


def changes(zone: ZoneInfo, year: int) -> list[datetime]:
    """Where the offset changes, to the hour."""
    hours = [datetime(year, 1, 1, tzinfo=UTC) + timedelta(hours=number) for number in range(366 * 24)]
    offsets = [hour.astimezone(zone).utcoffset() for hour in hours]
    return [hours[place] for place in range(1, len(hours)) if offsets[place] != offsets[place - 1]]


def between(slots: Iterator[datetime], since: datetime, until: datetime) -> list[datetime]:
    """Those in a range, in UTC."""
    return [slot.astimezone(UTC) for slot in takewhile(lambda slot: slot < until, slots) if slot >= since]


@pytest.mark.examples
def test_slots_are_those_of_a_walk_minute_by_minute(rng: random.Random) -> None:
    """Promise: around every change of offset, each slot is the one that the rules name, none twice and none lost. All
    of 20 zones and 10 years in the lab; some at every commit."""
    cases = [(zone, year) for zone in ZONES for year in YEARS]
    seen = 0
    for name, year in rng.sample(cases, count(len(cases), few=4)):
        zone = zone_of(name)
        for change in changes(zone, year) or [datetime(year, 3, 1, tzinfo=UTC)]:
            since, until = change - timedelta(hours=30), change + timedelta(hours=30)
            for expression in rng.sample(EXPRESSIONS, count(len(EXPRESSIONS), few=2)):
                found = between(cron_slots(expression, zone, since - MINUTE), since, until)
                assert found == list(model(expression, zone, since, until)), (name, change, expression)
                seen += 1
    assert seen


@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        ("30 2 * * *", "2026-03-28T12:00", ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]),
        ("30 2 * * *", "2026-10-24T12:00", ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]),
        (
            "*/30 2 * * *",
            "2026-10-24T12:00",
            [f"2026-10-25T02:{minute}:00+0{offset}:00" for offset in (2, 1) for minute in ("00", "30")],
        ),
        ("0 2,3 * * *", "2026-03-28T12:00", ["2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"]),
        ("*/20 0 2 * * *", "2026-03-28T12:00", ["2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"]),
        ("0 0 29 2 *", "2026-01-01T00:00", ["2028-02-29T00:00:00+01:00", "2032-02-29T00:00:00+01:00"]),
    ],
)
def test_slots_of_berlin(expression: str, after: str, expected: list[str]) -> None:
    """Promise: a fixed time runs once in autumn and at the next valid minute in spring; elapsed time runs both
    hours."""
    begin = datetime.fromisoformat(f"{after}+00:00")
    found = [
        slot.isoformat() for slot in islice(cron_slots(expression, zone_of("Europe/Berlin"), begin), len(expected))
    ]
    assert found == expected


@pytest.mark.parametrize(
    "text",
    ["* * 31 2 *", "0 0 30 2 *", "0 0 31 4,6 *", "61 * * * * *", "* * * *", "", "a b c d e", "@daily", "* * * * MON#6"],
)
def test_an_expression_that_never_comes_or_cannot_be_read_is_refused(text: str) -> None:
    """Promise: the error names the expression, before anything is stored."""
    with pytest.raises(InvalidSchedule, match="cron="):
        check_cron(text)


def test_what_is_no_text_is_shown_as_it_was_given() -> None:
    """Promise: the number 5 is not shown as the text '5'."""
    with pytest.raises(InvalidSchedule, match=r"^cron=5: give text such as '0 3 \* \* \*'"):
        check_cron(5)


@pytest.mark.parametrize("name", ["Europe/Berlyn", "", "../etc/passwd", "/etc/localtime", "x" * 300])
def test_an_unknown_zone_is_refused(name: str) -> None:
    """Promise: the error names it, and no file outside the zone data is read."""
    with pytest.raises(InvalidSchedule, match="no such time zone"):
        zone_of(name)
