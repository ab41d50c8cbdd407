"""What people write about runs becomes a filter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.client.selection import Selection, filter_of_words, is_oldest_first, period, statuses_of
from holdfast.core.status import Status
from holdfast.errors import InvalidInput
from holdfast.ports.runs import Filter

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)


def test_a_status_is_one_or_several() -> None:
    assert statuses_of(None) == ()
    assert statuses_of("failed") == statuses_of(Status.FAILED) == (Status.FAILED,)
    assert statuses_of(["paused", Status.FAILED, "paused"]) == (Status.PAUSED, Status.FAILED)


@pytest.mark.parametrize("given", ["broken", ["broken"], 7, b"failed", [None]])
def test_what_is_no_status_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInput):
        statuses_of(given)


def test_times_are_instants_or_durations_back_from_now() -> None:
    assert period(NOW, "2h", timedelta(minutes=5)) == (NOW - timedelta(hours=2), NOW - timedelta(minutes=5))
    assert period(NOW, "2026-06-30T00:00Z", None) == (datetime(2026, 6, 30, tzinfo=UTC), None)
    assert period(NOW, datetime(2026, 6, 1, tzinfo=UTC), 60)[1] == NOW - timedelta(minutes=1)
    assert period(NOW, "9999999w", None)[0] == datetime.min.replace(tzinfo=UTC)


@pytest.mark.parametrize("given", ["soon", "2026-06-30", "2026-06-30T00:00", -1, datetime(2026, 6, 1), True])  # noqa: DTZ001
def test_what_is_no_time_is_refused_by_name(given: Any) -> None:
    with pytest.raises(InvalidInput, match="since"):
        period(NOW, given, None)


def test_an_order_is_one_of_two() -> None:
    assert (is_oldest_first("-created"), is_oldest_first("created")) == (False, True)
    with pytest.raises(InvalidInput, match="'-created'"):
        is_oldest_first("newest")  # type: ignore[arg-type]


def test_what_is_asked_for_becomes_a_filter() -> None:
    """Contract: each argument of `runs` and `count` reaches the store; nothing given lets every run through."""
    assert Selection().filter(NOW) == Filter()
    asked = Selection(
        workflow="w",
        version="",
        status="failed",
        queue="q",
        parent="p",
        root="r",
        key="k",
        attributes={"tier": "gold"},
        since="2h",
        until="1h",
        order="created",
    )
    assert asked.filter(NOW) == Filter(
        workflow="w",
        version="",
        statuses=(Status.FAILED,),
        queue="q",
        parent="p",
        root="r",
        key="k",
        attributes={"tier": "gold"},
        since=NOW - timedelta(hours=2),
        until=NOW - timedelta(hours=1),
        is_oldest_first=True,
    )


def test_a_filter_in_words() -> None:
    words = [
        ("status", "failed, paused"),
        ("since", "2h"),
        ("attribute.tier", "gold"),
        ("version", ""),
        ("prefix", "o"),
    ]
    assert filter_of_words(words, NOW) == Filter(
        statuses=(Status.FAILED, Status.PAUSED),
        since=NOW - timedelta(hours=2),
        attributes={"tier": "gold"},
        version="",
        prefix="o",
    )
