"""When the claim loop looks again."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, cast

import pytest

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.memory.store import MemoryStore
from holdfast.ports.leases import Beat
from holdfast.worker.claim_loop import quiet_seconds
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
