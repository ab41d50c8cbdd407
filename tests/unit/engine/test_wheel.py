"""The wheel: many wake-up times on one timer, by a clock that may jump."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.system.clock import SystemClock
from holdfast.adapters.telemetry.logs import logged
from holdfast.engine.wheel import FEW, Alarm, Wheel

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


async def test_what_is_due_is_called_in_order_of_its_time(clock: VirtualClock) -> None:
    """Promise: earliest first, those of one time in the order they were asked for, each once."""
    wheel, rung = Wheel(clock, logged()), list[str]()
    for name, when in (("late", 9), ("b", 5), ("c", 5), ("a", 1)):
        wheel.at(at(when), partial(rung.append, name))
    assert wheel.turn() == 0
    clock.advance(5)
    assert wheel.turn() == 3
    assert rung == ["a", "b", "c"]
    clock.advance(3600)
    assert (wheel.turn(), wheel.turn()) == (1, 0)
    assert rung[-1] == "late"
    wheel.close()


async def test_a_clock_that_goes_back_calls_nothing_early_and_nothing_twice(clock: VirtualClock) -> None:
    """Promise: after the wall clock was put back a wake-up comes when the clock gets there."""
    wheel, rung = Wheel(clock, logged()), list[int]()
    wheel.at(at(10), lambda: rung.append(10))
    wheel.at(at(20), lambda: rung.append(20))
    clock.advance(10)
    wheel.turn()
    clock.set(START - timedelta(hours=1))
    assert wheel.turn() == 0
    wheel.at(at(-3000), lambda: rung.append(-3000))
    clock.advance(600)
    assert wheel.turn() == 1
    clock.advance(3020)
    wheel.turn()
    assert rung == [10, -3000, 20]
    wheel.close()


async def test_a_leap_ahead_calls_everything_at_once(clock: VirtualClock) -> None:
    """Promise: what a leap of the clock made due is called by the next turn, in order."""
    wheel, rung = Wheel(clock, logged()), list[int]()
    for hours in (3, 1, 2):
        wheel.at(START + timedelta(hours=hours), partial(rung.append, hours))
    clock.set(START + timedelta(days=1))
    assert wheel.turn() == 3
    assert rung == [1, 2, 3]
    wheel.close()


async def test_a_wake_up_that_breaks_takes_no_other_with_it(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise: the others due are still called, and those to come too."""
    wheel, rung = Wheel(clock, logged()), list[int]()

    def breaks() -> None:
        raise RuntimeError("surprise")

    wheel.at(at(1), breaks)
    wheel.at(at(1), lambda: rung.append(1))
    wheel.at(at(2), lambda: rung.append(2))
    clock.advance(1)
    assert wheel.turn() == 2
    clock.advance(1)
    wheel.turn()
    assert rung == [1, 2]
    assert "surprise" in caplog.text
    wheel.close()


async def test_it_turns_by_itself() -> None:
    """Promise: on a real clock nobody has to turn it, also when a nearer time is added later."""
    wheel, rung = Wheel(SystemClock(), logged()), asyncio.Event()
    now = datetime.now(UTC)
    wheel.at(now + timedelta(hours=2), lambda: None)
    wheel.at(now + timedelta(milliseconds=5), rung.set)
    await asyncio.wait_for(rung.wait(), 60)
    wheel.close()


async def test_a_callback_may_ask_again(clock: VirtualClock) -> None:
    """Promise: what a wake-up asks for is called by the next turn, so a turn always ends."""
    wheel, rung = Wheel(clock, logged()), list[int]()

    def again() -> None:
        rung.append(1)
        wheel.at(clock.now(), again)

    wheel.at(START, again)
    assert (wheel.turn(), wheel.turn()) == (1, 1)
    assert len(rung) == 2
    wheel.close()
    assert wheel.turn() == 0


async def test_an_alarm_rings_at_the_earliest_time_it_was_set_to(clock: VirtualClock) -> None:
    """Promise: a later time changes nothing; after it rang it can be set again."""
    wheel, rung = Wheel(clock, logged()), list[datetime]()
    alarm = Alarm(wheel, lambda: rung.append(clock.now()))
    alarm.set(at(10))
    alarm.set(at(20))
    alarm.set(at(5))
    clock.advance(5)
    wheel.turn()
    assert rung == [at(5)]
    alarm.set(at(30))
    clock.advance(30)
    wheel.turn()
    assert at(35) in rung
    wheel.close()


async def test_what_was_taken_back_is_not_called_and_not_kept(clock: VirtualClock) -> None:
    """Promise: it lets go of what it would have called at once; places nobody wants are never most of many."""
    wheel, rung = Wheel(clock, logged()), list[int]()
    kept = wheel.at(at(5), lambda: rung.append(5))
    for number in range(10_000):
        wheel.take_back(wheel.at(at(3600 + number), partial(rung.append, number)))
        assert len(wheel) <= 2 * FEW
    clock.advance(5)
    assert wheel.turn() == 1
    wheel.take_back(kept)  # it has come already
    clock.advance(20_000)
    assert wheel.turn() == 0
    assert (rung, len(wheel)) == ([5], 0)
    many = [wheel.at(at(40_000 + number), partial(rung.append, number)) for number in range(1000)]
    for due in many[::3]:
        wheel.take_back(due)
    clock.advance(40_000)
    assert wheel.turn() == 666
    assert rung[1:] == [number for number in range(1000) if number % 3]
    wheel.close()


async def test_an_alarm_that_was_stopped_does_not_ring_until_it_is_set_again(clock: VirtualClock) -> None:
    """Promise: nothing of it stays; set to an earlier time it rings once, not at the later one too."""
    wheel, rung = Wheel(clock, logged()), list[datetime]()
    alarm = Alarm(wheel, lambda: rung.append(clock.now()))
    alarm.set(at(10))
    alarm.stop()
    alarm.stop()
    clock.advance(10)
    assert wheel.turn() == 0
    alarm.set(at(20))
    alarm.set(at(15))
    clock.advance(10)
    assert wheel.turn() == 1
    assert rung == [at(20)]
    wheel.close()
