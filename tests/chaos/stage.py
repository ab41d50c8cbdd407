"""What the chaos tests share: a store, a ledger, worker processes, and the questions asked afterwards."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from holdfast import App, Run
from holdfast.app import open_store
from holdfast.core import events as e
from holdfast.core.fold import fold
from holdfast.core.projection import project
from holdfast.core.turn import decode_row, decode_rows
from holdfast.ports.runs import Filter
from tests.chaos import orders
from tests.support import warm

_ANY = Filter()
ROOT = Path(__file__).parents[2]
DEADLINE = 60.0


class Stage:
    """One store and its ledger."""

    def __init__(self, folder: Path, url: str = "") -> None:
        folder.mkdir(exist_ok=True)
        self.url = url or f"sqlite:///{folder / 'chaos.db'}"
        self.ledger = folder / "ledger.txt"
        self.ledger.touch()

    def worker(self, id: str, *fuse: str, ttl: float = 15) -> subprocess.Popen[str]:
        """Starts a worker process."""
        environment = {
            **os.environ,
            orders.LEDGER: str(self.ledger),
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        }
        command = [sys.executable, "-m", "tests.chaos.worker_process", self.url, id, *fuse, "--ttl", str(ttl)]
        return warm.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def entries(self) -> list[list[str]]:
        """The ledger, split: what, run, key, attempt, pid."""
        return [line.split() for line in self.ledger.read_text().splitlines()]

    def starts(self) -> Counter[tuple[str, str]]:
        """How often each body was started."""
        return Counter((run, key) for what, run, key, *_ in self.entries() if what == "start")

    def attempts(self) -> set[tuple[str, str, int]]:
        """Every attempt whose body was started: run, key, number."""
        return {(run, key, int(number)) for what, run, key, number, _ in self.entries() if what == "start"}

    @contextmanager
    def app(self) -> Iterator[App]:
        """A client of the store."""
        yield App(self.url, workflows=[orders.fulfil, orders.ship])

    async def start(self) -> Run[list[str]]:
        """Starts the order and approves it, with nobody there yet to advance it."""
        with self.app() as app:
            async with app:
                run = await app.start(orders.fulfil("o1"), id="order-1")
                await run.signal(orders.approved, True, id="yes")
                return run

    async def completed(self) -> set[tuple[str, str]]:
        """Steps whose completion is in the journal, by run and key."""
        found: set[tuple[str, str]] = set()
        store = await open_store(self.url)
        try:
            for row in (await store.list(_ANY)).runs:
                for turn in decode_rows((await store.read({row.no: 1}))[row.no]):
                    found |= {(row.id, x.key) for x in turn.events if isinstance(x, e.StepCompleted)}
        finally:
            await store.close()
        return found

    async def recorded(self, run_id: str, key: str) -> int:
        """How many attempts of a step the journal holds."""
        store = await open_store(self.url)
        try:
            count = 0
            for row in await store.history(run_id):
                for event in decode_row(row).events:
                    count += isinstance(event, e.StepScheduled | e.AttemptStarted) and event.key == key
                    count += isinstance(event, e.Claimed) and key in event.restarted
            return count
        finally:
            await store.close()

    async def journal(self, run_id: str) -> list[bytes]:
        """The checksums of a run's rows: what identifies every write to it."""
        store = await open_store(self.url)
        try:
            return [row.checksum for row in await store.history(run_id)]
        finally:
            await store.close()

    async def check(self) -> None:
        """The journals hold: dense, chained, epochs rising, and every row's projection equals its fold."""
        store = await open_store(self.url)
        try:
            for row in (await store.list(_ANY)).runs:
                turns = decode_rows((await store.read({row.no: 1}))[row.no])
                run = fold(row.id, turns)
                assert [turn.ordinal for turn in turns] == list(range(1, row.next_ordinal))
                assert [turn.epoch for turn in turns] == sorted(turn.epoch for turn in turns)
                shown = project(run)
                assert (shown.status, shown.doing, shown.workflow) == (row.status, row.doing, row.workflow)
        finally:
            await store.close()

    async def result(self) -> list[str]:
        """The order's result, once a worker has finished it."""
        with self.app() as app:
            async with app:
                return await (await app.get("order-1", orders.fulfil)).result(timeout=DEADLINE)


@contextmanager
def killed_at_end(module: ModuleType, url: str, ledger: Path) -> Iterator[None]:
    """The program `module` as a process of its own, until it is killed here. It notes in the ledger what it does."""
    environment = {
        **os.environ,
        module.LEDGER: str(ledger),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    process = subprocess.Popen([sys.executable, "-m", module.__name__, url], cwd=ROOT, env=environment)
    try:
        yield
    finally:
        process.kill()
        process.wait()


async def until(holds: Callable[[], bool], what: str) -> None:
    """Waits for a condition, with a deadline."""
    loop = asyncio.get_running_loop()
    limit = loop.time() + DEADLINE
    while not holds():
        if loop.time() > limit:
            raise AssertionError(f"not within {DEADLINE} s: {what}")
        await asyncio.sleep(0.01)


def end(process: subprocess.Popen[str]) -> str:
    """Stops a process and returns what it logged."""
    if process.poll() is None:
        process.terminate()
    try:
        _, log = process.communicate(timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        process.kill()
        _, log = process.communicate()
    return log
