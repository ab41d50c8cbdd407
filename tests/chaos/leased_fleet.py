"""Three servers of a lease manager, workers in processes, one PostgreSQL, and the oracle over their journals."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Literal, TypeAlias

from holdfast import App, Run
from holdfast.adapters.etcd import Connection
from holdfast.adapters.leases import Endpoints
from holdfast.adapters.nats import NatsGrants
from holdfast.core import events as e
from holdfast.core.turn import Row, decode_row
from holdfast.errors import HoldfastError, StoreUnavailable
from tests.chaos.leased_process import leased_app
from tests.support import warm
from tests.support.etcd import new_prefix
from tests.support.etcd_guard import EtcdServer
from tests.support.guard import free_port
from tests.support.nats_guard import NatsServer

TTL = 3.0
STEPS = 4

Kind: TypeAlias = Literal["etcd", "nats"]
Body: TypeAlias = tuple[str, int, int, int, float]
"""Run, step, attempt, process and time of a body that began."""


class Cluster:
    """Three servers on ports of their own."""

    def __init__(self, folder: Path, kind: Kind) -> None:
        self.kind = kind
        ports = {name: free_port() for name in ("one", "two", "three")}
        made = EtcdServer if kind == "etcd" else NatsServer
        self.members: Sequence[EtcdServer | NatsServer] = [
            made(folder, name=name, peer_port=port, peers=ports) for name, port in ports.items()
        ]

    async def start(self) -> None:
        for member in self.members:
            member.start(is_waited_for=False)
        await self.leader()

    def stop(self) -> None:
        for member in self.members:
            if member.process is not None:
                member.resume()
                member.stop()

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(member.address for member in self.members)

    async def leader(self) -> EtcdServer | NatsServer:
        """Who leads, once one does."""
        async with asyncio.timeout(60):
            while True:
                found = await (asyncio.to_thread(self._etcd_leader) if self.kind == "etcd" else self._nats_leader())
                if found is not None:
                    return found

    def _etcd_leader(self) -> EtcdServer | NatsServer | None:
        connection = Connection(Endpoints(addresses=self.addresses))
        try:
            for number, member in enumerate(self.members):
                try:
                    status = connection.status(number)
                except StoreUnavailable:
                    continue
                if status.leader and status.leader == status.header.member_id:
                    return member
        finally:
            connection.close()
        return None

    async def _nats_leader(self) -> EtcdServer | NatsServer | None:
        """The leader of the bucket, which is made if it is not there."""
        grants = nats_grants(self.addresses, "looking")
        try:
            await grants.own(1)
            roles = [member.role for member in (await grants.condition()).members]
        except HoldfastError:
            return None
        finally:
            await grants.close()
        leading = [number for number, role in enumerate(roles) if role.endswith(", leader")]
        return self.members[leading[0]] if leading else None


def nats_grants(addresses: tuple[str, ...], prefix: str) -> NatsGrants:
    """A manager on a bucket of three replicas."""
    return NatsGrants(Endpoints(addresses=addresses), replicas=3, prefix=prefix, ttl=timedelta(seconds=15))


class Fleet:
    """Workers in processes, and the ledger of their bodies."""

    def __init__(self, folder: Path, url: str, cluster: Cluster, *, poll: float = TTL / 2) -> None:
        self.folder = folder
        self.url = url
        self.cluster = cluster
        self.poll = poll
        self.prefix = new_prefix()
        self.ledger = folder / "ledger"
        self.ledger.touch()
        self.workers: dict[int, subprocess.Popen[bytes]] = {}
        self._number = 0

    def start(self) -> None:
        name = f"w{self._number}"
        self._number += 1
        command = [sys.executable, "-m", "tests.chaos.leased_process", self.url, name, str(self.ledger)]
        with (self.folder / f"{name}.log").open("ab") as log:
            process = warm.Popen(
                [*command, self.cluster.kind, self.prefix, str(TTL), str(self.poll), *self.cluster.addresses],
                stdout=subprocess.PIPE,
                stderr=log,
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
        return leased_app(self.url, self.ledger, "store", "holdfast", TTL)

    def bodies(self, run: str = "") -> list[Body]:
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


async def check_journals(fleet: Fleet, app: App, runs: Sequence[Run[int]]) -> None:
    """The oracle: every run has its result, its rows are dense, epochs never fall, no attempt began twice, and what was
    written in one epoch was carried out by one process."""
    store = (await app.client()).store
    for run in runs:
        assert await run.result("60s") == sum(range(STEPS))
        rows = await store.history(run.id)
        assert [row.ordinal for row in rows] == list(range(rows[0].ordinal, rows[0].ordinal + len(rows)))
        assert [row.epoch for row in rows] == sorted(row.epoch for row in rows)
        row = await store.get(run.id)
        assert row is not None
        assert (row.instance, row.next_ordinal) == ("", rows[-1].ordinal + 1)
        check_writers(rows, fleet.bodies(run.id))


def check_writers(rows: Sequence[Row], bodies: Sequence[Body]) -> None:
    """Each body that began belongs to an attempt in the journal; those of one epoch began in one process."""
    epochs: dict[tuple[str, int], int] = {}
    attempts: Counter[str] = Counter()
    for row in rows:
        for event in decode_row(row).events:
            match event:
                case e.Claimed():
                    attempts.update(event.restarted)
                    moved = (*event.restarted, *event.begun)
                case e.StepScheduled() | e.AttemptStarted():
                    attempts[event.key] += 1
                    moved = (event.key,)
                case _:
                    moved = ()
            epochs |= {(key, attempts[key]): row.epoch for key in moved}
    writers: dict[int, set[int]] = {}
    begun: Counter[tuple[str, int]] = Counter()
    for _, number, attempt, pid, _ in bodies:
        at = (f"noted:{number}" if number else "noted", attempt)
        begun[at] += 1
        writers.setdefault(epochs[at], set()).add(pid)
    assert {at: count for at, count in begun.items() if count > 1} == {}, "attempts that began twice"
    assert {epoch: pids for epoch, pids in writers.items() if len(pids) > 1} == {}, "epochs with two writers"
