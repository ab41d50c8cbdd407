"""When the claim loop looks again, and whose turn it is then."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.memory.store import MemoryStore
from holdfast.ports.leases import Beat, Claims
from holdfast.worker.claiming import Fairness, fairly, quiet_seconds
from holdfast.worker.options import WorkerOptions

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


# -- turns -------------------------------------------------------------------------------------------------------------


@dataclass
class Queue:
    """What `fairly` asks of a worker: due runs by name of their workflow, in the order in which they came due."""

    due: list[str]
    held: tuple[str, ...]
    claims: int = 0
    put_off: tuple[tuple[str, str], ...] = ()

    @property
    def row(self) -> Any:
        return SimpleNamespace(definitions=tuple((name, "") for name in self.held))

    async def claim(self, limit: int, definitions: tuple[tuple[str, str], ...] | None = None) -> Claims:
        self.claims += 1
        of = self.held if definitions is None else [name for name, _ in definitions]
        taken = [name for name in self.due if name in of][:limit]
        for name in taken:
            self.due.remove(name)
        put_off, self.put_off = self.put_off, ()
        return Claims([cast("Any", SimpleNamespace(workflow=name, version="")) for name in taken], None, put_off)


async def passes_until(queue: Queue, name: str, limit: int, fairness: Fairness) -> int:
    """How many passes it takes until a run of that workflow is taken."""
    for count in range(1, 1_000):
        claims = await fairly(cast("Any", queue), limit, fairness)
        if any(run.workflow == name for run in claims.runs):
            return count
    raise AssertionError(f"{name} is never taken")


@pytest.mark.parametrize("limit", [1, 2, 7, 50])
@pytest.mark.parametrize("kinds", [1, 2, 5])
async def test_a_run_waits_for_no_more_than_a_turn_of_each_workflow(kinds: int, limit: int) -> None:
    """Promise: behind a thousand runs of some workflows, one of another comes after two passes for each of them at
    most, however many a pass takes; again and again, while they flood the queue."""
    names = tuple(f"flood{number}" for number in range(kinds))
    queue = Queue(list(names) * (1_000 // kinds), (*names, "rare", "rarer"))
    fairness = Fairness()
    for name in ("rare", "rarer", "rare", "rare", "rarer"):
        queue.due.append(name)
        assert await passes_until(queue, name, limit, fairness) <= 2 * (kinds + 2)


async def test_a_workflow_that_filled_a_pass_once_is_not_held_back_for_it() -> None:
    """Promise: only who floods the queue stands back, and only while it does."""
    queue = Queue(["rare"] + ["flood"] * 1_000, ("flood", "rare"))
    fairness = Fairness()
    await fairly(cast("Any", queue), 10, fairness)
    for _ in range(5):
        queue.due.append("rare")
        assert await passes_until(queue, "rare", 10, fairness) <= 3


async def test_every_other_pass_takes_whatever_is_due_first() -> None:
    """Promise: who is first in the queue, by priority or time, waits for one pass of the others at most."""
    queue = Queue(["a", "b", "c", "d"] * 100, ("a", "b", "c", "d", "first"))
    fairness = Fairness()
    for _ in range(20):
        await fairly(cast("Any", queue), 1, fairness)
        queue.due.insert(0, "first")
        assert await passes_until(queue, "first", 1, fairness) <= 2


async def test_an_idle_queue_is_asked_once_a_pass() -> None:
    """Promise: nobody stands back where nobody waits, and so nothing is asked twice."""
    queue = Queue([], ("a", "b"))
    fairness = Fairness()
    for _ in range(10):
        queue.due += ["a", "b"]
        await fairly(cast("Any", queue), 10, fairness)
    assert queue.claims == 10


async def test_what_the_others_turn_put_off_is_told() -> None:
    """Promise: a pass that took nothing for the others still says what nobody can run."""
    queue = Queue(["flood"] * 100, ("flood", "rare"))
    fairness = Fairness()
    await fairly(cast("Any", queue), 10, fairness)
    queue.put_off = (("homeless", "workflow lost is not registered"),)
    claims = await fairly(cast("Any", queue), 10, fairness)
    assert len(claims.runs) == 10
    assert claims.put_off == (("homeless", "workflow lost is not registered"),)
