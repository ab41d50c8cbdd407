"""Timers and retries against a list: nothing fires early, twice or never, and no delay leaves its bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime, timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.telemetry.logs import logged
from holdfast.core.durations import format_duration, parse_duration
from holdfast.core.retry import LATEST, Retry
from holdfast.engine.wheel import Alarm, Due, Wheel
from holdfast.testing.conformance.world import START

spans = st.integers(-60, 600).map(lambda count: timedelta(seconds=count / 4))
lengths = st.timedeltas(timedelta(0), timedelta(days=40000))


class Timers(RuleBasedStateMachine):
    """The wheel of a worker, an alarm on it, and the policy of retries."""

    def __init__(self) -> None:
        super().__init__()
        self.resources = ExitStack()
        self.clock = VirtualClock(START)
        self.wheel = Wheel(self.clock, logged())
        self.alarm = Alarm(self.wheel, self.ring)
        self.waiting: set[tuple[datetime, int]] = set()
        self.dues: dict[tuple[datetime, int], Due] = {}
        self.wrong: list[str] = []
        self.alarm_at: datetime | None = None
        self.count = 0

    @initialize()
    def begin(self) -> None:
        self.runner = self.resources.enter_context(asyncio.Runner())

    def teardown(self) -> None:
        self.wheel.close()
        self.resources.close()

    def on_loop(self, work: Callable[[], object]) -> object:
        async def called() -> object:
            return work()

        return self.runner.run(called())

    @rule(after=spans, breaks=st.booleans())
    def set_timer(self, after: timedelta, *, breaks: bool) -> None:
        """One that breaks does not keep the others from firing."""
        number, self.count = self.count, self.count + 1
        when = self.clock.now() + after

        def fire() -> None:
            self.fire((when, number))
            if breaks:
                raise ValueError("on purpose")

        def ask() -> None:
            self.dues[when, number] = self.wheel.at(when, fire)

        self.waiting.add((when, number))
        self.on_loop(ask)

    @precondition(lambda self: self.dues)
    @rule(data=st.data())
    def take_timer_back(self, data: st.DataObject) -> None:
        """It never fires; if it has fired already, that is nothing."""
        timer = data.draw(st.sampled_from(sorted(self.dues)))
        self.waiting.discard(timer)
        self.wheel.take_back(self.dues.pop(timer))

    @rule()
    def stop_alarm(self) -> None:
        self.alarm_at = None
        self.alarm.stop()

    def fire(self, timer: tuple[datetime, int]) -> None:
        """S13: once, not before its time, and after all that were due before. (What is raised here is only logged.)"""
        if timer not in self.waiting:
            self.wrong.append(f"{timer} fired twice")
        if timer[0] > self.clock.now():
            self.wrong.append(f"{timer} fired early")
        if min(self.waiting, default=timer) < timer:
            self.wrong.append(f"{timer} fired before older ones")
        self.waiting.discard(timer)

    @rule(after=spans)
    def set_alarm(self, after: timedelta) -> None:
        when = self.clock.now() + after
        self.alarm_at = when if self.alarm_at is None else min(self.alarm_at, when)
        self.on_loop(lambda: self.alarm.set(when))

    def ring(self) -> None:
        """At the earliest of its times, and not unless it is set."""
        if self.alarm_at is None or self.alarm_at > self.clock.now():
            self.wrong.append(f"the alarm rings, which is set to {self.alarm_at}")
        self.alarm_at = None

    @rule(by=spans.filter(lambda span: span > timedelta(0)))
    def time_passes(self, by: timedelta) -> None:
        self.clock.advance(by)

    @rule(by=spans)
    def clock_is_set(self, by: timedelta) -> None:
        self.clock.set(self.clock.now() + by)

    @rule()
    def turn(self) -> None:
        """Whatever is due has fired afterwards; the alarm, too, at the earliest of its times."""
        is_due = self.alarm_at is not None and self.alarm_at <= self.clock.now()
        self.on_loop(self.wheel.turn)
        assert not self.wrong
        assert not [timer for timer in self.waiting if timer[0] <= self.clock.now()]
        assert self.alarm_at is None or not is_due

    @rule(
        attempts=st.none() | st.integers(1, 50),
        first=lengths,
        factor=st.floats(1, 1e6),
        more=lengths,
        failures=st.integers(1, 2000),
        jitter=st.floats(0, 1, exclude_max=True),
    )
    def retry(
        self, attempts: int | None, first: timedelta, factor: float, more: timedelta, failures: int, jitter: float
    ) -> None:
        """Half of it to all of it, never above the ceiling, never before now, never longer for an earlier failure."""
        policy = Retry(attempts, first=first, factor=factor, ceiling=first + more)
        longest, delay = policy.delay(failures, 0), policy.delay(failures, jitter)
        assert first <= longest <= first + more
        assert longest / 2 <= delay + timedelta(microseconds=1)
        assert delay <= longest
        assert longest <= policy.delay(failures + 1, 0)
        at = policy.next_at(failures, self.clock.now(), jitter)
        assert (at is None) == (attempts is not None and failures >= attempts)
        assert at is None or self.clock.now() <= at <= LATEST

    @rule(length=lengths)
    def duration(self, length: timedelta) -> None:
        """What is shown to people is read again as what was shown."""
        shown = parse_duration(format_duration(length))
        assert shown <= length
        assert format_duration(shown) == format_duration(length)
