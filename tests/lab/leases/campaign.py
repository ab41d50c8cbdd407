"""Lease managers as a level: three servers of etcd, then of NATS, under every fault; and how soon what a dead worker
had continues elsewhere, by push alone: workers do not poll.

The times are those of the machine. Run it when nothing else does:

    python3 dev.py lab --only "lease managers" --seeds 50
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
from pathlib import Path
from typing import Final

from tests.chaos.leased_faults import hurt_a_worker, hurt_the_manager
from tests.chaos.leased_fleet import TTL, Cluster, Fleet, Kind
from tests.lab.levels import Effort, Report, level
from tests.support.postgres import clean_url

KINDS: Final[tuple[Kind, ...]] = ("etcd", "nats")
LATE: Final[dict[Kind, float]] = {"etcd": 1.5, "nats": 2.0}
SOON: Final = 0.5
NEVER: Final = 3600.0


async def continued(folder: Path, kind: Kind, count: int, report: Report, effort: Effort) -> None:
    """Kills a worker and stops one gracefully, that many times."""
    cluster = Cluster(folder, kind)
    fleet = Fleet(folder, clean_url(), cluster, poll=NEVER)
    worst = dict.fromkeys((signal.SIGKILL, signal.SIGTERM), 0.0)
    try:
        await cluster.start()
        for _ in range(3):
            fleet.start()
        for number in range(count):
            if number and effort.is_over:
                count = number
                break
            for sent in worst:
                took = await hurt_a_worker(fleet, sent, f"{sent.name}-{number}")
                worst[sent] = max(worst[sent], took)
                effort.say(f"{kind}: {sent.name} {number}: {took:.2f} s, worst {worst[sent]:.2f} s")
    finally:
        fleet.stop()
        cluster.stop()
    limits = {signal.SIGKILL: TTL + LATE[kind], signal.SIGTERM: SOON}
    for sent, took in worst.items():
        report.figures[f"{kind}: seconds from {sent.name} to the next body, worst of {count}"] = round(took, 2)
        if took > limits[sent]:
            report.problems.append(f"{kind}: {took:.2f} s after {sent.name}, more than {limits[sent]:.1f} s")


async def hurt(folder: Path, kind: Kind) -> None:
    """Every fault of the manager, once, under load."""
    cluster = Cluster(folder, kind)
    fleet = Fleet(folder, clean_url(), cluster)
    try:
        await cluster.start()
        for _ in range(3):
            fleet.start()
        await hurt_the_manager(fleet, cluster)
    finally:
        fleet.stop()
        cluster.stop()


@level("lease managers", "etcd and NATS with three servers: faults of servers and workers, recovery by push")
def lease_managers(effort: Effort) -> Report:
    """Every fault of each manager, then kills: as many as `seeds` says, ten if it does not."""
    report = Report()
    for kind in KINDS:
        with tempfile.TemporaryDirectory(prefix="holdfast-leases-") as folder:
            asyncio.run(continued(Path(folder), kind, effort.seeds or 10, report, effort))
        with tempfile.TemporaryDirectory(prefix="holdfast-leases-") as folder:
            try:
                asyncio.run(hurt(Path(folder), kind))
            except AssertionError as error:
                report.problems.append(f"{kind}: {error}")
            effort.say(f"{kind}: faults of its servers: done")
    return report
