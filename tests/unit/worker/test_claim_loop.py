"""When the claim loop looks again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast import facts
from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.memory.store import MemoryStore
from holdfast.errors import StoreUnavailable
from holdfast.ports.leases import Beat, Claims
from holdfast.worker import claim_loop
from holdfast.worker.claim_loop import quiet_seconds
from holdfast.worker.slots import Admission
from holdfast.worker.worker_options import WorkerOptions

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
POLL, TTL = timedelta(seconds=1), timedelta(seconds=15)


@dataclass
class Idle:
    """What the claim loop asks of a worker that has nothing to do."""

    clock: VirtualClock = field(default_factory=lambda: VirtualClock(START))
    last_beat: Beat | None = None
    options: WorkerOptions = field(default_factory=lambda: WorkerOptions("w", is_configured=True, poll=POLL, ttl=TTL))

    def __post_init__(self) -> None:
        self.store = MemoryStore(clock=self.clock)

    def beats(self, quiet: timedelta | None) -> None:
        now = self.clock.now()
        until = None if quiet is None else now + quiet
        self.last_beat = Beat(now, has_lapsed=False, orphaned=0, quiet_until=until)

    def quiet_seconds(self, looked_at: datetime) -> float:
        return quiet_seconds(cast("Any", self), looked_at)


def test_a_heartbeat_that_found_nothing_due_is_a_look() -> None:
    """Promise: a pass comes a poll after the last look, and a heartbeat has looked; so of an idle worker with the
    default settings one pass in five is spared. Never is more than a poll and a twentieth between two looks."""
    idle = Idle()
    began = next_beat = idle.clock.now()
    looks: list[datetime] = []

    def rest(until: datetime) -> None:
        nonlocal next_beat
        while next_beat <= until:
            idle.clock.set(next_beat)
            idle.beats(TTL)
            looks.append(next_beat)
            next_beat += TTL / 3
        idle.clock.set(until)

    passed_at = began - POLL / 3
    while passed_at < began + timedelta(seconds=100):
        rest(passed_at + POLL)
        rest(idle.clock.now() + timedelta(seconds=max(0.0, idle.quiet_seconds(passed_at))))
        passed_at = idle.clock.now()
        looks.append(passed_at)
    assert len(looks) <= 102
    assert max(b - a for a, b in pairwise(looks)) <= POLL * 1.05


@pytest.mark.parametrize(
    ("quiet", "since", "seconds"),
    [
        (TTL, 0.4, 0.65),
        (timedelta(seconds=0.7), 0.4, 0.3),
        (timedelta(0), 0.0, 0.0),
        (TTL, 2.0, -0.95),
        (None, 0.1, 0.0),
        (TTL, -600.0, 1.0),
    ],
)
def test_a_pass_is_put_off_no_farther_than_what_was_seen(quiet: timedelta | None, since: float, seconds: float) -> None:
    """Promise: until a poll after the heartbeat, or until what it saw comes due; and whatever is done to the clock of
    the store, no longer than a poll."""
    idle = Idle()
    looked_at = idle.clock.now()
    idle.clock.advance(1)
    idle.beats(quiet)
    idle.clock.set(idle.clock.now() + timedelta(seconds=since))
    assert idle.quiet_seconds(looked_at) == pytest.approx(seconds)


def test_a_heartbeat_before_the_pass_says_nothing_new() -> None:
    """Promise: what the pass itself saw coming due is not put off by an earlier heartbeat; without any, nothing is."""
    idle = Idle()
    assert idle.quiet_seconds(idle.clock.now()) == 0.0
    idle.beats(TTL)
    assert idle.quiet_seconds(idle.clock.now()) == 0.0


class Failing:
    """A worker whose claims fail in turn with these errors, and then work; it stops after the last."""

    def __init__(self, *errors: Exception | None) -> None:
        self._errors = list(errors)
        self.told: list[facts.Trouble] = []
        self.work_hinted, self.is_stopping, self.granted, self.last_beat = asyncio.Event(), False, None, None
        self.own_runs: list[str] = []
        self.store, self.options = MemoryStore(), WorkerOptions("w", is_configured=True, poll=timedelta(milliseconds=1))
        self.engine = SimpleNamespace(busy=0, doubt=lambda: None)
        self.admission, self.telemetry = Admission(1, 1), SimpleNamespace(tell=self.told.append)

    async def claim(self, limit: int, only: Sequence[str] = ()) -> Claims:
        error = self._errors.pop(0)
        self.is_stopping = not self._errors
        if error is not None:
            raise error
        return Claims([], None)


async def test_claims_that_fail_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: the log can say the same error sparingly; another error, or the same after a success, is a new one."""
    monkeypatch.setattr(claim_loop, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr(claim_loop, "LONGEST_PAUSE", 0.0)
    away, odd = StoreUnavailable("the file is gone"), ValueError("odd")
    worker = Failing(away, away, away, odd, odd, None, odd)
    await claim_loop.claim_until_stopped(cast("Any", worker))
    assert [x.failures for x in worker.told] == [1, 2, 3, 1, 2, 1]
