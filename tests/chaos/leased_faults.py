"""What can happen to a lease manager and to its workers. Each fault is a promise: nothing is lost, nothing runs twice
that should not, and no two workers write in one epoch."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter

from holdfast import Run
from tests.chaos.leased_fleet import STEPS, TTL, Cluster, Fleet, check_journals
from tests.chaos.leased_process import counted


async def hurt_the_manager(fleet: Fleet, cluster: Cluster) -> None:
    """The leader stopped, a member paused for three leases, all members cut, their data wiped."""
    app = fleet.app()
    runs: list[Run[int]] = []

    async def load(name: str) -> None:
        runs.extend([await app.start(counted(STEPS), id=f"{name}-{number}") for number in range(10)])

    async with app:
        await load("calm")
        leader = await cluster.leader()
        leader.stop()
        await load("without-leader")
        leader.start(is_waited_for=False)
        paused = await cluster.leader()
        paused.pause()
        await load("with-a-paused-member")
        async with asyncio.timeout(60):
            for run in runs:
                await run.result()
        await asyncio.sleep(TTL)  # three leases in all: a fault that lasts
        await load("later")
        await asyncio.sleep(2 * TTL)
        paused.resume()
        for member in cluster.members:
            member.stop()
        await load("without-any-member")
        async with asyncio.timeout(60):
            for run in runs:
                await run.result()
        for member in cluster.members:
            member.wipe()
            member.start(is_waited_for=False)
        await cluster.leader()
        await load("after-the-wipe")
        await check_journals(fleet, app, runs)
    twice = [body for body, count in Counter(body[:2] for body in fleet.bodies()).items() if count > 1]
    assert twice == [], "no worker was killed, so no body runs twice"
    assert len(fleet.bodies()) == len(runs) * STEPS


async def hurt_a_worker(fleet: Fleet, number: signal.Signals, name: str) -> float:
    """One that holds a run gets the signal. The seconds until another worker begins the run's next body. It comes back
    after SIGSTOP, and its writes are refused; after another signal a new worker replaces it."""
    app = fleet.app()
    async with app:
        run = await app.start(counted(STEPS), id=f"held-{name}")
        pid, _ = await fleet.begun(run.id)
        at = time.time()
        os.kill(pid, number)
        _, again = await fleet.begun(run.id, 2)
        if number == signal.SIGSTOP:
            os.kill(pid, signal.SIGCONT)
        else:
            fleet.end(pid, number)
            fleet.start()
        await check_journals(fleet, app, [run])
    return again - at
