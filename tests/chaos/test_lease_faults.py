"""Three servers of a lease manager, three workers, one PostgreSQL: whatever happens to the manager or to a worker,
every run ends once, with one writer at a time, and what a dead worker had continues elsewhere by push.

Faults of NATS servers take long: they are a level of the lab (`tests/lab/leases`)."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.chaos.leased_faults import hurt_a_worker, hurt_the_manager
from tests.chaos.leased_fleet import TTL, Cluster, Fleet, Kind
from tests.support.postgres import clean_url

NEVER = 3600.0
"""Seconds between two polls of a worker: who learns of a free run at all was told of it."""

SIGNALS = (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM)


@asynccontextmanager
async def fleet_on(folder: Path, kind: Kind, *, poll: float = TTL / 2) -> AsyncIterator[Fleet]:
    cluster = Cluster(folder, kind)
    fleet = Fleet(folder, clean_url(), cluster, poll=poll)
    try:
        await cluster.start()
        for _ in range(3):
            fleet.start()
        yield fleet
    finally:
        fleet.stop()
        cluster.stop()


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_whatever_happens_to_the_manager_every_run_ends_once(tmp_path: Path) -> None:
    """Promise: the leader stopped, a member paused for three leases, all members cut, their data wiped: nothing is
    lost, no completed step runs again, and no two write in one epoch."""
    async with fleet_on(tmp_path, "etcd") as fleet:
        await hurt_the_manager(fleet, fleet.cluster)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["etcd", "nats"])
async def test_what_a_dead_worker_had_continues_elsewhere_by_push(
    tmp_path: Path, kind: Kind, record_property: Callable[[str, object], None]
) -> None:
    """Promise: after SIGKILL, SIGSTOP and SIGTERM others are told, though nobody polls; after SIGTERM before the lease
    is over. The worker that was stopped comes back, and its writes are refused. (How soon: `lab --only leases`.)"""
    async with fleet_on(tmp_path, kind, poll=NEVER) as fleet:
        took = {number.name: await hurt_a_worker(fleet, number, number.name) for number in SIGNALS}
    record_property("figure", f"{kind}, by push: " + ", ".join(f"{name} {sec:.2f} s" for name, sec in took.items()))
    assert took["SIGTERM"] < TTL
