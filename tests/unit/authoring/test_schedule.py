"""`Schedule`: everything is checked when it is made."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pytest

from holdfast import App, BlobRef, Schedule, workflow
from holdfast.errors import DefinitionError, HoldfastError, InvalidDuration, InvalidId, InvalidInput, InvalidSchedule

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@workflow
async def report(day: str = "today") -> str:
    return day


@workflow
async def attach(file: BlobRef) -> int:
    return file.size


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({}, InvalidSchedule, "exactly one of cron=, every= and at="),
        ({"cron": "0 3 * * *", "every": "1h"}, InvalidSchedule, "cron and every given"),
        ({"cron": "* * 31 2 *"}, InvalidSchedule, "never occurs"),
        ({"cron": "61 * * * * *"}, InvalidSchedule, "second is not valid"),
        ({"cron": "0 3 * * *", "tz": "Berlin"}, InvalidSchedule, "no such time zone"),
        ({"every": "1h", "tz": "Europe/Berlin"}, InvalidSchedule, "goes with cron="),
        ({"every": "0s"}, InvalidSchedule, "at least 1 s"),
        ({"every": "10ms"}, InvalidSchedule, "at least 1 s"),
        ({"every": "soon"}, InvalidDuration, "every="),
        ({"every": "1h", "jitter": "1h"}, InvalidSchedule, "jitter=1 h is not shorter"),
        ({"cron": "0,1 3 * * *", "jitter": "2m"}, InvalidSchedule, "the 1 min between two slots"),
        ({"every": "1h", "catch_up": -5}, InvalidDuration, "negative"),
        ({"every": "1h", "overlap": "wait"}, InvalidSchedule, "overlap='wait': use one of skip"),
        ({"every": "1h", "missed": "some"}, InvalidSchedule, "missed='some': use one of last"),
        ({"every": "1h", "times": 0}, InvalidSchedule, "times=0"),
        ({"every": "1h", "times": True}, InvalidSchedule, "times=True"),
        ({"every": "1h", "starts": datetime(2026, 1, 1)}, InvalidInput, "starts=.* is naive"),  # noqa: DTZ001
        ({"every": "1h", "starts": NOW, "ends": NOW}, InvalidSchedule, "between starts= and ends="),
        ({"at": []}, InvalidSchedule, "at="),
        ({"at": [datetime(2026, 1, 1)]}, InvalidInput, "at=.* is naive"),  # noqa: DTZ001
        ({"at": [NOW + timedelta(seconds=number) for number in range(1001)]}, InvalidSchedule, "at most 1,000"),
        ({"every": "1h", "queue": ""}, InvalidId, "queue"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(options: Any, error: type[HoldfastError], says: str) -> None:
    """Promise: a typed error says what is wrong, and with which schedule, when it is made."""
    with pytest.raises(error, match=rf"^Schedule\('s'\): .*{says}"):
        Schedule("s", report(), **options)


@pytest.mark.parametrize("name", ["", "a@b", "x" * 181, " a"])
def test_a_name_that_ids_cannot_be_made_of_is_refused(name: str) -> None:
    """Promise: each run is named after schedule and slot."""
    with pytest.raises((InvalidSchedule, InvalidId)):
        Schedule(name, report(), every="1h")


def test_what_is_not_a_call_is_refused() -> None:
    """Promise: wrong arguments are refused by the call itself; the workflow alone is not a call."""
    wrong: Any = report
    with pytest.raises(InvalidSchedule, match="takes a call"):
        Schedule("s", wrong, every="1h")
    with pytest.raises(HoldfastError):
        Schedule("s", wrong(1, 2, 3), every="1h")
    with pytest.raises(InvalidSchedule, match="a schedule keeps at most"):
        Schedule("s", report("x" * 300_000), every="1h")


def test_arguments_that_refer_to_a_blob_are_refused() -> None:
    """Promise: nothing keeps a blob for a schedule, so a run of it would miss the blob."""
    with pytest.raises(InvalidSchedule, match="refer to a blob"):
        Schedule("s", attach(BlobRef("0" * 64, 3, "json")), every="1h")


def test_an_app_has_one_schedule_of_a_name() -> None:
    """Promise: two of one name are refused before anything is opened."""
    one, other = Schedule("s", report(), every="1h"), Schedule("s", report(), every="2h")
    with pytest.raises(DefinitionError, match="two schedules have the name 's'"):
        App("memory://", schedules=[one, other])
    wrong: Any = report
    with pytest.raises(DefinitionError, match="takes schedules"):
        App("memory://", schedules=[wrong])
    with pytest.raises(DefinitionError, match="takes a list of schedules, not"):
        App("memory://", schedules=one)  # type: ignore[arg-type]


def test_slots_of_a_period_and_of_instants() -> None:
    """Promise: periods are counted from `starts`, or 1970; `starts` may be a slot and `ends` is none; instants come
    once each, in order."""
    begin = NOW.replace(minute=10)

    def slots(**options: Any) -> list[datetime]:
        return list(islice(Schedule("s", report(), **options).definition.timetable.slots(NOW), 3))

    minute = timedelta(minutes=1)
    assert slots(every="15m") == [NOW + 15 * minute, NOW + 30 * minute, NOW + 45 * minute]
    assert slots(every="15m", starts=begin) == [begin, begin + 15 * minute, begin + 30 * minute]
    assert slots(every="15m", starts=begin, ends=begin + 15 * minute) == [begin]
    assert slots(at=[begin, NOW, begin, begin - minute]) == [begin - minute, begin]


def test_jitter_is_the_same_for_everybody_and_shorter_than_said() -> None:
    """Promise: it follows from name and slot, spreads, and stays below its bound."""
    table = Schedule("s", report(), every="1h", jitter="10m").definition.timetable
    slots = list(islice(table.slots(NOW), 200))
    delays = [table.delay("s", slot) for slot in slots]
    assert delays == [table.delay("s", slot) for slot in slots]
    assert delays != [table.delay("t", slot) for slot in slots]
    assert max(delays) < timedelta(minutes=10)
    assert max(delays) - min(delays) > timedelta(minutes=8)


def test_a_schedule_in_words() -> None:
    """Promise: people can read when it runs."""
    nightly = Schedule("nightly", report(), cron="0 3 * * *", tz="Europe/Berlin")
    assert repr(nightly) == "<Schedule nightly: report, At 03:00 every day (Europe/Berlin)>"
    assert Schedule("s", report(), every="90m").definition.timetable.words() == "every 1 h 30 min"
