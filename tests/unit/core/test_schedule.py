"""What becomes of a schedule's slots: started, skipped, buffered, missed. Nothing here has a clock or a store."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise, takewhile
from typing import Any

import msgspec
import pytest

from holdfast.core.schedule import (
    MOST_SLOTS,
    MOST_STARTS,
    Advance,
    Definition,
    Pause,
    Pending,
    ScheduleState,
    Work,
    add,
    advance,
    next_look,
)
from holdfast.core.timetable import make_timetable
from tests.support.examples import count

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def state(*, timetable: dict[str, Any] | None = None, **options: Any) -> ScheduleState:
    """A schedule made at noon, hourly unless said otherwise."""
    definition = Definition(
        timetable=make_timetable(**(timetable or {"every": "1h"})), work=Work(workflow="order"), **options
    )
    return ScheduleState(definition=definition, made_at=START, cursor=START)


def started(step: Advance) -> list[str]:
    return [one.run for one in step.starts]


def at(hour: int, minute: int = 0) -> datetime:
    return START.replace(hour=hour, minute=minute)


def test_a_slot_is_started_once_when_it_is_due() -> None:
    """Promise: not before, once, under the name of schedule and slot; then the next one is waited for."""
    first = state()
    early = advance("s", first, at(12, 59), ())
    assert (early.starts, early.next_at) == ((), at(13))
    due = advance("s", early.state, at(13), ())
    assert (started(due), due.next_at) == (["s@2026-01-01T13:00:00+00:00"], at(14))
    again = advance("s", due.state, at(13), ())
    assert (again.starts, again.next_at, again.state.fired) == ((), at(14), 1)


@pytest.mark.parametrize(
    ("missed", "catch_up", "runs", "counted"),
    [
        ("last", HOUR * 9, [17], 4),
        ("last", timedelta(0), [17], 4),
        ("all", HOUR * 9, [13, 14, 15, 16, 17], 0),
        ("all", HOUR * 2, [16, 17], 3),
        ("none", HOUR * 9, [], 5),
    ],
)
def test_slots_of_a_downtime(missed: Any, catch_up: timedelta, runs: list[int], counted: int) -> None:
    """Promise: within `catch_up` all or the last are made up for; the rest is counted. With "none", a slot that is
    late is not made up for at all."""
    late = timedelta(0) if catch_up == timedelta(0) else timedelta(minutes=5)
    step = advance("s", state(missed=missed, catch_up=catch_up, overlap="allow"), at(17) + late, ())
    assert started(step) == [f"s@{at(hour).isoformat()}" for hour in runs]
    assert (step.state.missed, step.next_at) == (counted, at(18))


def test_a_slot_that_is_decided_soon_is_not_late() -> None:
    """Promise: a worker may be some seconds late with it, whatever `missed` and `catch_up` say."""
    for options in ({"missed": "none"}, {"catch_up": timedelta(0)}):
        assert len(advance("s", state(**options), at(13) + timedelta(seconds=20), ()).starts) == 1


def test_a_long_downtime_is_worked_off_in_pieces() -> None:
    """Promise: one pass looks at a bounded number of slots and starts a bounded number of runs; together they decide
    every slot once."""
    now = START + timedelta(days=30)
    for missed in ("last", "all"):
        current = state(timetable={"every": "10m"}, missed=missed, catch_up=timedelta(days=2), overlap="allow")
        runs, passes = list[str](), 0
        while True:
            step = advance("s", current, now, ())
            passes += 1
            assert len(step.starts) <= MOST_STARTS
            runs += started(step)
            current = step.state
            if step.next_at != now:
                break
        assert len(runs) == len(set(runs)) == current.fired
        assert current.fired + current.missed == 30 * 24 * 6
        assert current.fired == (1 if missed == "last" else 2 * 24 * 6 + 1)
        assert passes > 30 * 24 * 6 // MOST_SLOTS


def busy(overlap: Any, *, buffered: int = 0) -> ScheduleState:
    """A schedule whose run of 13:00 is open."""
    step = advance("s", state(overlap=overlap), at(13), ())
    waiting = tuple(Pending(f"b{number}", at(13)) for number in range(buffered))
    return msgspec.structs.replace(step.state, buffered=waiting)


OPEN = {"s@2026-01-01T13:00:00+00:00"}


@pytest.mark.parametrize(
    ("overlap", "starts", "buffered", "cancels", "kills", "skipped"),
    [
        ("skip", 0, 0, 0, 0, 1),
        ("buffer_one", 0, 1, 0, 0, 0),
        ("buffer_all", 0, 1, 0, 0, 0),
        ("cancel", 0, 1, 1, 0, 0),
        ("kill", 1, 0, 0, 1, 0),
        ("allow", 1, 0, 0, 0, 0),
    ],
)
def test_a_slot_while_the_run_before_is_open(
    overlap: Any, starts: int, buffered: int, cancels: int, kills: int, skipped: int
) -> None:
    """Promise: each way to deal with it, as it is named."""
    step = advance("s", busy(overlap), at(14), OPEN)
    found = (len(step.starts), len(step.state.buffered), len(step.cancels), len(step.kills), step.state.skipped)
    assert found == (starts, buffered, cancels, kills, skipped)
    assert set(step.cancels) | set(step.kills) <= OPEN


def test_of_the_slots_of_a_downtime_only_the_last_is_started_if_each_kills_the_one_before() -> None:
    """Promise: a run that the same pass would kill is not made; the earlier run is killed once, and all are counted."""
    current = msgspec.structs.replace(
        busy("kill"), definition=state(overlap="kill", missed="all", catch_up=HOUR * 9).definition
    )
    step = advance("s", current, at(16), OPEN)
    assert started(step) == [f"s@{at(16).isoformat()}"]
    assert set(step.kills) == OPEN
    assert (step.state.fired, step.state.skipped) == (2, 2)
    assert step.state.open == (step.starts[0].run,)


@pytest.mark.parametrize(("overlap", "kept", "skipped"), [("buffer_one", 1, 1), ("buffer_all", 2, 0), ("cancel", 1, 1)])
def test_a_second_slot_while_one_is_buffered(overlap: Any, kept: int, skipped: int) -> None:
    """Promise: one is kept, the first; or all; with "cancel" the newest."""
    step = advance("s", busy(overlap, buffered=1), at(14), OPEN)
    assert (len(step.state.buffered), step.state.skipped) == (kept, skipped)
    assert step.state.buffered[-1].run == ("b0" if overlap == "buffer_one" else "s@2026-01-01T14:00:00+00:00")


def test_a_buffered_slot_begins_when_the_run_before_has_ended() -> None:
    """Promise: one at a time, in their order; and while one waits, there is a time to look."""
    waiting = busy("buffer_all", buffered=2)
    held = advance("s", waiting, at(13, 1), OPEN)
    assert held.starts == ()
    assert held.next_at is not None
    assert at(13, 1) < held.next_at < at(14)
    first = advance("s", held.state, at(13, 2), ())
    assert (started(first), [one.run for one in first.state.buffered]) == (["b0"], ["b1"])
    second = advance("s", first.state, at(13, 3), ())
    assert (started(second), second.state.buffered) == (["b1"], ())


def test_nothing_begins_while_it_is_paused() -> None:
    """Promise: neither slots nor what is buffered, and no time to look."""
    paused = msgspec.structs.replace(busy("buffer_one", buffered=1), paused=Pause(at(13)))
    step = advance("s", paused, at(20), ())
    assert (step.starts, step.next_at, step.state.missed) == ((), None, 0)


def test_it_runs_as_often_as_it_is_told_to() -> None:
    """Promise: `times` counts slots that start a run, buffered ones included; then there is no next slot."""
    step = advance("s", state(times=3, missed="all", catch_up=HOUR * 9, overlap="allow"), at(20), ())
    assert (len(step.starts), step.next_at) == (3, None)
    waiting = advance("s", state(times=1, overlap="buffer_one"), at(13), ())
    assert waiting.next_at is None
    held = advance("s", msgspec.structs.replace(state(times=1, overlap="buffer_one"), open=("x",)), at(13), {"x"})
    assert len(held.state.buffered) == 1
    assert advance("s", held.state, at(14), {"x"}).state.buffered == held.state.buffered


def test_starts_by_hand_obey_overlap_and_do_not_count() -> None:
    """Promise: a start beside the timetable is started, buffered or skipped as a slot would be; `times`, the cursor and
    the last slot are those of the timetable."""
    by_hand = Pending("s@trigger:1", at(13, 1), is_slot=False)
    for overlap, expected in (("skip", "skipped"), ("buffer_one", "buffered"), ("allow", "started")):
        before = busy(overlap)
        step, fate = add("s", before, at(13, 1), by_hand, OPEN)
        assert fate == expected
        assert (step.state.fired, step.state.cursor, step.state.last) == (before.fired, before.cursor, before.last)
        assert step.next_at is not None


def test_the_same_local_time_never_comes_twice() -> None:
    """Promise: after a change of zone data by which a slot's local time is still to come, it does not come again."""
    berlin = {"cron": "0 3 * * *", "tz": "Europe/Berlin"}
    step = advance("s", state(timetable=berlin), at(12) + timedelta(hours=15), ())
    assert step.state.last_local == "2026-01-02T03:00:00"
    # as if the zone had been two hours further east when the slot was decided
    moved = msgspec.structs.replace(step.state, cursor=step.state.cursor - 2 * HOUR)
    assert advance("s", moved, at(12) + timedelta(hours=16), ()).starts == ()
    hourly = msgspec.structs.replace(moved, definition=state(timetable={"cron": "0 * * * *"}).definition)
    assert len(advance("s", hourly, at(12) + timedelta(hours=16), ()).starts) == 1


def due_slots(current: ScheduleState, after: datetime, now: datetime) -> list[datetime]:
    """The slots that were to begin by now, as the timetable says."""
    plan = current.definition.timetable
    due = takewhile(lambda slot: slot + plan.delay("s", slot) <= now, plan.slots(after))
    return [slot.astimezone(UTC) for slot in due]


@pytest.mark.examples
def test_no_slot_is_lost_or_comes_twice_however_often_and_late_it_is_looked_at(rng: random.Random) -> None:
    """Promise: with "all" and "allow", the runs are the slots of the timetable, whenever passes come, and whichever of
    them are lost before they are written."""
    for _ in range(count(500, few=20)):
        timetable = rng.choice(
            [
                {"every": rng.choice(["1m", "7m", "1h"])},
                {"cron": "*/5 * * * *", "tz": "America/New_York", "jitter": rng.choice(["0s", "90s"])},
                {"cron": "30 2 * * *", "tz": "Europe/Berlin"},
            ]
        )
        current = state(timetable=timetable, missed="all", catch_up=timedelta(days=9), overlap="allow")
        begin = current.cursor + timedelta(days=rng.choice([0, 86, 296]))
        current = msgspec.structs.replace(current, cursor=begin)
        now, runs = begin, list[Pending]()
        while now < begin + timedelta(days=2):
            step = advance("s", current, now, ())
            assert next_look("s", current, now) is not None
            if rng.random() < 0.7:  # else whoever decided it died before the write
                current, runs = step.state, [*runs, *step.starts]
            now += timedelta(seconds=rng.choice([1, 60, 600, 10_000]))
        while (step := advance("s", current, now, ())).starts:
            current, runs = step.state, [*runs, *step.starts]
        assert [one.at for one in runs] == due_slots(current, begin, now)
        assert all(first.at < second.at for first, second in pairwise(runs))
