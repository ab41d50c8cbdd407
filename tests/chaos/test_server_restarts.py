"""A PostgreSQL server that is stopped at once (`pg_ctl stop -m immediate`) and started again, several times, with work
under way: the workers stay, nothing is lost, nothing that completed runs again."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.errors import StoreError
from tests.chaos.fleet import Fleet
from tests.support.postgres import new_schema, server_url
from tests.support.postgres_guard import Server

RESTARTS = 4


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of these tests' own, which they may stop."""
    own = Server(tmp_path_factory.mktemp("server"))
    own.make()
    own.start()
    yield own
    own.stop()


async def fed(fleet: Fleet, runs: int) -> None:
    """Starts more runs, each again under its id until the store has answered."""
    wanted = len(fleet.started) + runs
    while len(fleet.started) < wanted:
        try:
            await fleet.feed(1)
        except StoreError:
            await asyncio.sleep(0.05)


def bodies(fleet: Fleet) -> int:
    return sum(entry.what == "start" for entry in fleet.entries())


async def goes_on(fleet: Fleet, since: int) -> None:
    """Until bodies were begun that had not been before."""
    async with asyncio.timeout(60):
        while bodies(fleet) < since + 4:  # noqa: ASYNC110 other processes write the ledger
            await asyncio.sleep(0.02)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.spec("stepflow.J13", "stepflow.C6")
async def test_a_server_that_stops_and_comes_back_costs_nothing_but_time(
    server: Server, size: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Promise: four immediate stops in the middle of the work: every worker process is the one it was, every run
    completes, no completed step runs again, no attempt begins twice."""
    fleet = Fleet(server_url(new_schema(), port=server.port), tmp_path, ttl=6, poll=0.2, check=0.5)
    pauses: list[float] = []
    async with fleet.app:
        try:
            await fed(fleet, 2 * size)
            for number in range(size):
                await fleet.launch(f"w{number}")
            pids = {name: process.pid for name, process in fleet.workers.items()}
            for _ in range(RESTARTS):
                before = bodies(fleet)
                await fed(fleet, 2 * size)
                await goes_on(fleet, before)
                stopped = time.monotonic()
                server.stop(signal.SIGQUIT)
                server.start()  # in this thread: the kernel ends the server with the thread that started it
                before = bodies(fleet)
                await fed(fleet, size)
                await goes_on(fleet, before)
                pauses.append(time.monotonic() - stopped)
            assert {name: process.pid for name, process in fleet.workers.items()} == pids
            assert [process.poll() for process in fleet.workers.values()] == [None] * size
            await fleet.finish()
            await fleet.check()
        finally:
            fleet.stop()
    record_property(
        "figure",
        f"{size} workers, {RESTARTS} immediate stops of the server, {len(fleet.started)} runs: all done; from each "
        f"stop to the next body {', '.join(f'{pause:.1f}' for pause in pauses)} s",
    )
