"""Three etcd members, three workers, one PostgreSQL: whatever happens to the manager or to a worker, every run ends
once, with one writer at a time, and what a dead worker had goes on elsewhere by push."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import App, Run
from holdfast.adapters.etcd import Connection
from holdfast.adapters.leases import Endpoints
from holdfast.errors import StoreUnavailable
from tests.chaos.leased_process import counted, leased_app
from tests.support.etcd import new_prefix
from tests.support.etcd_guard import EtcdServer
from tests.support.guard import free_port
from tests.support.postgres import clean_url

TTL = 3.0
STEPS = 4


class Cluster:
    """Three members on ports of their own."""

    def __init__(self, folder: Path) -> None:
        ports = {name: free_port() for name in ("one", "two", "three")}
        self.members = [EtcdServer(folder, name=name, peer_port=port, peers=ports) for name, port in ports.items()]

    def start(self) -> None:
        for member in self.members:
            member.start(is_waited_for=False)
        self.leader()

    def stop(self) -> None:
        for member in self.members:
            if member.process is not None:
                member.resume()
                member.stop()

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(member.address for member in self.members)

    def leader(self) -> EtcdServer:
        """Who leads, once somebody does."""
        connection = Connection(Endpoints(addresses=self.addresses))
        deadline = time.monotonic() + 60
        try:
            while time.monotonic() < deadline:
                for number, member in enumerate(self.members):
                    try:
                        status = connection.status(number)
                    except StoreUnavailable:
                        continue
                    if status.leader and status.leader == status.header.member_id:
                        return member
        finally:
            connection.close()
        raise AssertionError("no member leads")


class Fleet:
    """Workers in processes, and the ledger of their bodies."""

    def __init__(self, folder: Path, url: str, addresses: tuple[str, ...]) -> None:
        self.folder = folder
        self.url = url
        self.addresses = addresses
        self.prefix = new_prefix()
        self.ledger = folder / "ledger"
        self.ledger.touch()
        self.workers: dict[int, subprocess.Popen[bytes]] = {}
        self._number = 0

    def start(self) -> None:
        name = f"w{self._number}"
        self._number += 1
        command = [sys.executable, "-m", "tests.chaos.leased_process", self.url, name, str(self.ledger), "etcd"]
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [*command, self.prefix, str(TTL), "store", *self.addresses], stdout=subprocess.PIPE, stderr=log
            )
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready == b"ready\n", (self.folder / f"{name}.log").read_text()
        process.stdout.close()
        self.workers[process.pid] = process

    def end(self, pid: int, number: int) -> None:
        process = self.workers.pop(pid)
        process.send_signal(number)
        process.wait(30)

    def stop(self) -> None:
        for pid in list(self.workers):
            os.kill(pid, signal.SIGCONT)
            self.end(pid, signal.SIGTERM)

    def app(self) -> App:
        return leased_app(self.url, self.ledger, "store", "holdfast", TTL, "store")

    def bodies(self, run: str = "") -> list[tuple[str, int, int, int, float]]:
        """Run, step, attempt, process and time of every body that began."""
        lines = [line.split() for line in self.ledger.read_text().splitlines()]
        found = [(name, int(step), int(attempt), int(pid), float(at)) for name, step, attempt, pid, at in lines]
        return [body for body in found if not run or body[0] == run]

    async def begun(self, run: str, count: int = 1) -> tuple[int, float]:
        """The process and time of the n-th body of a run, once it has begun."""
        async with asyncio.timeout(60):
            while len(self.bodies(run)) < count:  # noqa: ASYNC110 - what another process does
                await asyncio.sleep(0.01)
        *_, pid, at = self.bodies(run)[count - 1]
        return pid, at


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def fleet(cluster: Cluster, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path, clean_url(), cluster.addresses)
    for _ in range(3):
        made.start()
    yield made
    made.stop()


async def check_journals(app: App, runs: list[Run[int]]) -> None:
    """The oracle: every run has its result, its rows are dense, epochs never fall, and one epoch has one beginning."""
    store = (await app.client()).store
    for run in runs:
        assert await run.result("60s") == sum(range(STEPS))
        rows = await store.history(run.id)
        assert [row.ordinal for row in rows] == list(range(rows[0].ordinal, rows[0].ordinal + len(rows)))
        assert [row.epoch for row in rows] == sorted(row.epoch for row in rows)
        row = await store.get(run.id)
        assert row is not None
        assert (row.instance, row.next_ordinal) == ("", rows[-1].ordinal + 1)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_whatever_happens_to_the_manager_every_run_ends_once(fleet: Fleet, cluster: Cluster) -> None:
    """Promise: the leader stopped, a member paused for three leases, all members cut, their data wiped: nothing is
    lost, no completed step runs again, and no two write in one epoch."""
    app = fleet.app()
    runs: list[Run[int]] = []

    async def load(name: str) -> None:
        runs.extend([await app.start(counted(STEPS), id=f"{name}-{number}") for number in range(10)])

    async with app:
        await load("calm")
        leader = cluster.leader()
        leader.stop()
        await load("without-leader")
        leader.start(is_waited_for=False)
        paused = cluster.leader()
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
        await asyncio.to_thread(cluster.leader)
        await load("after-the-wipe")
        await check_journals(app, runs)
    twice = [body for body, count in Counter(body[:2] for body in fleet.bodies()).items() if count > 1]
    assert twice == [], "no worker was killed, so no body runs twice"
    assert len(fleet.bodies()) == len(runs) * STEPS


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_what_a_dead_worker_had_goes_on_elsewhere_by_push(fleet: Fleet) -> None:
    """Promise: after SIGKILL, or a SIGSTOP that outlasts the lease, within the lease and 1.5 s; after SIGTERM within
    half a second. The worker that was stopped comes back, and its writes are refused."""
    app = fleet.app()
    async with app:
        for number, most in ((signal.SIGKILL, TTL + 1.5), (signal.SIGSTOP, TTL + 1.5), (signal.SIGTERM, 0.5)):
            run = await app.start(counted(STEPS), id=f"held-{number}")
            pid, _ = await fleet.begun(run.id)
            at = time.time()
            os.kill(pid, number)
            _, again = await fleet.begun(run.id, 2)
            assert again - at <= most, f"after {number.name} it took {again - at:.2f} s"
            if number == signal.SIGSTOP:
                os.kill(pid, signal.SIGCONT)
            else:
                fleet.end(pid, number)
                fleet.start()
            await check_journals(app, [run])
