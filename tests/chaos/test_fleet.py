"""Two and four workers on one store: killed, paused, restarted and stopped; nothing is lost and nothing done twice."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.chaos.fleet import Fleet
from tests.support.postgres import new_schema, server_url

TTL, POLL = 2.0, 0.2
AFTER_KILL = TTL + POLL + 2.0
AFTER_RELEASE = POLL + 1.0
BUSY = 4
"""Who dies is heard of through so many waits, of a heartbeat, a look, a claim and a step."""


@pytest.fixture(params=["sqlite", "postgres"])
async def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Fleet]:
    """No worker yet. Another store is another parameter and its address."""
    url = f"sqlite:///{tmp_path / 'fleet.db'}" if request.param == "sqlite" else server_url(new_schema())
    made = Fleet(url, tmp_path, ttl=TTL, poll=POLL, check=POLL)
    async with made.app:
        try:
            yield made
        finally:
            made.stop()


def p99(times: list[float]) -> float:
    return times[min(len(times) * 99 // 100, len(times) - 1)]


def said(times: list[float]) -> str:
    return f"{len(times)} runs, p50 {times[len(times) // 2]:.2f} s, p99 {p99(times):.2f} s"


class Lateness:
    """By how much this machine was late at worst, while it was watched: so much later everything else may be, too."""

    def __init__(self) -> None:
        self.worst = 0.0

    async def watch(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + 0.05
            await asyncio.sleep(0.05)
            self.worst = max(self.worst, loop.time() - due)


@pytest.fixture
async def late() -> AsyncIterator[Lateness]:
    """What the test's limits are widened by."""
    lateness = Lateness()
    watching = asyncio.ensure_future(lateness.watch())
    yield lateness
    watching.cancel()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.spec("stepflow.C6", "stepflow.R2", "stepflow.C5", "stepflow.R20", "stem.S60")
async def test_a_fleet_loses_nothing(
    fleet: Fleet, late: Lateness, size: int, record_property: Callable[[str, object], None]
) -> None:
    """Promise: SIGKILL, SIGSTOP past the lease, restart with the same and with another id, SIGTERM, all under load:
    every run completes, no completed step runs again, and what was in hand goes on elsewhere in time: 99 of 100 within
    the lease, a poll and 2 s after SIGKILL, within a poll and 1 s after what SIGTERM releases. (Later by what several
    processes of a busy machine are late, each.)"""
    names = [f"w{number}" for number in range(size)]
    for name in names:
        await fleet.launch(name)

    pid = fleet.workers["w0"].pid
    runs, at = await fleet.cut_off("w0", signal.SIGKILL)
    await fleet.launch("another")
    times = await fleet.taken_over(runs, pid, at)
    record_property("figure", f"{fleet.kind}, {size} workers, SIGKILL, restarted with another id: {said(times)}")
    assert p99(times) <= AFTER_KILL + BUSY * late.worst

    pid = fleet.workers["w1"].pid
    runs, at = await fleet.pause("w1")
    times = await fleet.taken_over(runs, pid, at)
    record_property("figure", f"{fleet.kind}, {size} workers, SIGSTOP past the lease: {said(times)}")
    assert p99(times) <= AFTER_KILL + BUSY * late.worst
    fleet.workers["w1"].send_signal(signal.SIGCONT)

    pid = fleet.workers["another"].pid
    runs, at = await fleet.cut_off("another", signal.SIGKILL)
    await fleet.launch("another")
    times = await fleet.taken_over(runs, pid, at)
    record_property("figure", f"{fleet.kind}, {size} workers, SIGKILL, restarted with the same id: {said(times)}")

    times = await fleet.handed_over("w1")
    record_property("figure", f"{fleet.kind}, {size} workers, SIGTERM: {said(times)}")
    assert p99(times) <= AFTER_RELEASE + BUSY * late.worst
    await fleet.finish()
    await fleet.check()
