"""One store with its workers, its ledger, and somebody who gives it work and writes down what was acknowledged."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import TypeVar

import msgspec

from holdfast import App, Run
from holdfast.client.verification import verify_run
from holdfast.core import events as e
from holdfast.core.turn import Turn, decode_row
from holdfast.errors import StoreError
from holdfast.ports.runs import Filter
from tests.lab.chaos import work
from tests.lab.chaos.nursery import PATIENCE, Nursery, Order, is_alive
from tests.lab.chaos.oracle import Act, Evidence
from tests.lab.chaos.pulse import Pulse

T = TypeVar("T")

TTL, POLL = 2.0, 0.2
IN_HAND = 16
"""So many errands are under way at any time, beside those that wait for their signal."""

UNSIGNALLED = 6
SHIFTS = (-3600.0, -30.0, 30.0, 3600.0)
"""By how much the wall clock of a worker's host may be wrong."""


async def until(holds: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Waits for a condition, with a deadline."""
    limit = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > limit:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}")
        await asyncio.sleep(0.01)


class Acknowledged:
    """What the driver was told is done. A line is on the disk before it counts."""

    def __init__(self, path: Path) -> None:
        self.starts: dict[str, object] = {}
        self.signals: list[tuple[str, str]] = []
        self._file = path.open("wb")

    def start(self, run: str, expected: object) -> None:
        """A run was started."""
        self._write(f"start {run}")
        self.starts[run] = expected

    def signal(self, run: str, message: str) -> None:
        """A signal was sent."""
        self._write(f"signal {run} {message}")
        self.signals.append((run, message))

    def _write(self, line: str) -> None:
        self._file.write(f"{line}\n".encode())
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


class Lateness:
    """By how much this machine was late at worst: so much later everything else may be, too."""

    def __init__(self) -> None:
        self.worst = 0.0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while True:
            due = time.monotonic() + 0.05
            if self._is_over.wait(0.05):
                return
            self.worst = max(self.worst, time.monotonic() - due)

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()


class Site:
    """Workers by name, and the work they are given. `url` is asked for each worker: it may change."""

    def __init__(self, url: str, folder: Path, rng: Random, *, is_many_hosts: bool) -> None:
        self.url = url
        self.rng = rng
        self.ledger = work.Ledger(folder / "ledger.txt")
        self.antidote: Path = folder / "antidote"
        self.acked = Acknowledged(folder / "acknowledged.txt")
        self.acts: list[Act] = []
        self.workers: dict[str, int] = {}
        self.shifted = 0
        self.deaf = 0
        self.resumed = 0
        self.stalled: set[int] = set()
        """Processes that are stopped just now."""
        self.app = App(url, workflows=[work.errand, work.poison, work.beat])
        self.pulse: Pulse = Pulse(self.app, self.insist)
        self.slots: list[str] | None = None
        """Runs that the schedule has to have started; None while it is not over."""
        self._is_many_hosts = is_many_hosts
        self._waiting: deque[Run[int]] = deque()
        self._nursery = Nursery(
            {
                work.LEDGER: str(self.ledger.path),
                work.ANTIDOTE: str(self.antidote),
                "HOLDFAST_RECOVERY_CHECK_INTERVAL": f"{POLL}s",
            }
        )
        self._numbers = 0
        self._names = 0
        self._feeding: asyncio.Task[None] | None = None

    # -- workers -------------------------------------------------------------------------------------------------------

    def new_name(self) -> str:
        """A worker id that was not used yet."""
        self._names += 1
        return f"w{self._names}"

    async def launch(self, name: str) -> int:
        """A worker of that id. Where hosts are many, some have a wrong clock, and some hear no notifications."""
        shift, url = 0.0, self.url
        if self._is_many_hosts and self.rng.random() < 0.3:
            shift = self.rng.choice(SHIFTS)
            self.shifted += 1
        if self._is_many_hosts and self.rng.random() < 0.3:
            url += "&notices=off"
            self.deaf += 1
        pid = self.workers[name] = await self._nursery.bear(Order(name, url, TTL, POLL, shift))
        return pid

    async def supervised(self) -> None:
        """Launches again, under its id, every worker that is gone."""
        for name, pid in list(self.workers.items()):
            if not is_alive(pid):
                await self.launch(name)

    async def a_busy_one(self) -> str:
        """A worker that is awake and has bodies under way."""
        names: list[str] = []

        def found() -> bool:
            busy = self.ledger.busy()
            names[:] = [
                name for name, pid in self.workers.items() if pid not in self.stalled and busy[pid] and is_alive(pid)
            ]
            return bool(names)

        await until(found, "a worker that is busy")
        return self.rng.choice(sorted(names))

    def failures(self) -> list[str]:
        """Workers that ended by themselves."""
        return self._nursery.failures

    # -- work ----------------------------------------------------------------------------------------------------------

    async def insist(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Asks again, unchanged, until the store has answered."""
        limit = time.monotonic() + PATIENCE
        while True:
            try:
                return await ask()
            except StoreError:
                if time.monotonic() > limit:
                    raise
                await asyncio.sleep(0.05)

    async def feed(self) -> None:
        """One errand more, and the signal of one that has waited long enough."""
        number, self._numbers = self._numbers, self._numbers + 1
        name = f"errand-{number}"
        run = await self.insist(lambda: self.app.start(work.errand(number), id=name))
        self.acked.start(name, work.model(number))
        self._waiting.append(run)
        if len(self._waiting) > UNSIGNALLED:
            await self.approve()

    async def approve(self) -> None:
        """Signals the run that has waited longest."""
        run = self._waiting.popleft()
        message = f"yes-{run.id}"
        await self.insist(lambda: run.signal(work.approved, work.TIP, id=message))
        self.acked.signal(run.id, message)

    async def _feed_on(self) -> None:
        while True:
            self.ledger.look()
            if self._numbers - len(self.ledger.ended) < IN_HAND + UNSIGNALLED:
                await self.feed()
            else:
                await asyncio.sleep(0.02)

    @asynccontextmanager
    async def fed(self) -> AsyncIterator[None]:
        """Work comes in for as long as this lasts."""
        self._feeding = asyncio.ensure_future(self._feed_on())
        try:
            yield
        finally:
            self._feeding.cancel()
            await asyncio.wait([self._feeding])

    # -- the end -------------------------------------------------------------------------------------------------------

    async def finish(self) -> None:
        """Every errand is approved and ends, and so does every slot, if it ever does; then the workers stop."""
        while self._waiting:
            await self.approve()
        self.slots = await self.pulse.end()
        wanted = {run for run in self.acked.starts if run.startswith("errand")}

        limit = time.monotonic() + PATIENCE
        while not wanted <= self.ledger.ended and time.monotonic() < limit:  # if not, the oracle says which
            await self.resume()
            await asyncio.sleep(0.1)
            self.ledger.look()
        with suppress(TimeoutError):
            for name in sorted(wanted):
                await (await self.app.get(name, work.errand)).result(timeout=PATIENCE)
        await self.pulse.finish(self.slots, self.resume)
        for pid in self.workers.values():
            if is_alive(pid):
                os.kill(pid, 15)
        await until(lambda: not any(map(is_alive, self.workers.values())), "the workers stop")

    async def resume(self) -> None:
        """What lost its worker again and again was quarantined, as it should be; an operator resumes it."""
        async for view in self.app.runs(status="paused"):
            run: Run[object] = await self.app.get(view.id)
            await self.insist(run.resume)
            self.resumed += 1

    async def evidence(self) -> Evidence:
        """All there is to judge by."""
        journals: dict[str, list[Turn]] = {}
        results: dict[str, object] = {}
        unsound: dict[str, str] = {}
        store, after = (await self.app.client()).store, ""
        while True:
            page = await store.list(Filter(), after=after, limit=100)
            rows = await store.read({row.no: 1 for row in page.runs})
            for row in page.runs:
                turns = journals[row.id] = [decode_row(each) for each in rows[row.no]]
                last = turns[-1].events[-1] if turns else None
                if isinstance(last, e.Completed):
                    results[row.id] = msgspec.json.decode(last.value)
                if problem := (await verify_run(store, row)).problem:
                    unsound[row.id] = problem
            after = page.next
            if not after:
                break
        acked = {**self.acked.starts, **dict.fromkeys(self.slots or (), work.TICKED)}
        ledger = self.ledger.look()
        return Evidence(acked, self.acked.signals, journals, results, unsound, ledger, self.acts, self.slots)

    async def close(self) -> None:
        """Nothing is left."""
        await self._nursery.close()
        self.acked.close()
