"""Two and four workers on one store: killed, paused, restarted and stopped; nothing is lost and nothing done twice."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.chaos.fleet import Fleet
from tests.support.postgres import new_schema, server_url

TTL, POLL, CHECK = 2.0, 0.2, 0.5
AFTER_KILL = TTL + CHECK + POLL + 2.0
AFTER_RELEASE = POLL + 1.0


@pytest.fixture(params=["sqlite", "postgres"])
async def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Fleet]:
    """No worker yet. Another store is another parameter and its address."""
    url = f"sqlite:///{tmp_path / 'fleet.db'}" if request.param == "sqlite" else server_url(new_schema())
    made = Fleet(url, tmp_path, ttl=TTL, poll=POLL, check=CHECK)
    async with made.app:
        try:
            yield made
        finally:
            made.stop()


def said(times: list[float]) -> str:
    return f"{len(times)} runs, p50 {times[len(times) // 2]:.2f} s, longest {times[-1]:.2f} s"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.spec("stepflow.C6", "stepflow.R2", "stepflow.C5", "stepflow.R20", "stem.S60")
async def test_a_fleet_loses_nothing(fleet: Fleet, size: int, record_property: Callable[[str, object], None]) -> None:
    """Promise: SIGKILL, SIGSTOP past the lease, restart with the same and with another id, SIGTERM, all under load:
    every run completes, no completed step runs again, and what was in hand goes on elsewhere in time."""
    names = [f"w{number}" for number in range(size)]
    for name in names:
        await fleet.launch(name)

    pid = fleet.workers["w0"].pid
    runs, at = await fleet.cut_off("w0", signal.SIGKILL)
    await fleet.launch("another")
    times = await fleet.taken_over(runs, pid, at)
    record_property("figure", f"{fleet.kind}, {size} workers, SIGKILL, restarted with another id: {said(times)}")
    assert times[-1] <= AFTER_KILL

    pid = fleet.workers["w1"].pid
    runs, at = await fleet.pause("w1")
    times = await fleet.taken_over(runs, pid, at)
    record_property("figure", f"{fleet.kind}, {size} workers, SIGSTOP past the lease: {said(times)}")
    assert times[-1] <= AFTER_KILL
    fleet.workers["w1"].send_signal(signal.SIGCONT)

    pid = fleet.workers["another"].pid
    runs, at = await fleet.cut_off("another", signal.SIGKILL)
    await fleet.launch("another")
    times = await fleet.taken_over(runs, pid, at)
    record_property("figure", f"{fleet.kind}, {size} workers, SIGKILL, restarted with the same id: {said(times)}")

    times = await fleet.handed_over("w1")
    record_property("figure", f"{fleet.kind}, {size} workers, SIGTERM: {said(times)}")
    assert times[-1] <= AFTER_RELEASE
    await fleet.finish()
    await fleet.check()
