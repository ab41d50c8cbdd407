"""A fleet of worker processes on one store: what they did, when, and what the journal says of it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from holdfast import App
from holdfast.core import events as e
from holdfast.core.turn import decode_row
from holdfast.errors import StoreError
from tests.chaos import jobs
from tests.chaos.stage import DEADLINE, ROOT, end, until
from tests.support import warm


@dataclass(frozen=True)
class Entry:
    """One line of the ledger: a body began or ended, where and when."""

    what: str
    run: str
    key: str
    attempt: int
    pid: int
    at: float


class Fleet:
    """Workers by id, one ledger for all of them."""

    def __init__(self, url: str, folder: Path, *, ttl: float, poll: float, check: float) -> None:
        self.url = url
        self.kind = url.partition(":")[0]
        self.ledger = folder / "ledger.txt"
        self.ledger.touch()
        self.workers: dict[str, subprocess.Popen[str]] = {}
        self.app = App(url, workflows=[jobs.job])
        self.started: list[str] = []
        self._options = [str(ttl), str(poll)]
        self._environment = {
            **os.environ,
            jobs.LEDGER: str(self.ledger),
            "HOLDFAST_RECOVERY_CHECK_INTERVAL": f"{check}s",
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        }

    async def launch(self, id: str) -> None:
        """Starts a worker and waits until it serves."""
        command = [sys.executable, "-m", "tests.chaos.jobs", self.url, id, *self._options]
        process = self.workers[id] = await asyncio.to_thread(
            warm.Popen,
            command,
            cwd=ROOT,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        assert await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), DEADLINE) == "ready\n"

    async def feed(self, count: int) -> None:
        """Starts more runs."""
        for _ in range(count):
            run = await self.app.start(jobs.job(), id=f"job-{len(self.started)}")
            self.started.append(run.id)

    def entries(self) -> list[Entry]:
        """The ledger so far."""
        lines = [line.split() for line in self.ledger.read_text().splitlines()]
        return [Entry(what, run, key, int(attempt), int(pid), float(at)) for what, run, key, attempt, pid, at in lines]

    async def is_busy(self, id: str) -> None:
        """Gives the fleet runs until this worker has bodies under way."""
        pid = self.workers[id].pid
        async with asyncio.timeout(DEADLINE):
            while len(self.under_way(pid)) < 4:
                await self.feed(1)
                await asyncio.sleep(0.02)

    def under_way(self, pid: int) -> set[str]:
        """Runs whose latest body began in that process and has not ended. (A worker that was paused may end others.)"""
        latest: dict[str, Entry] = {}
        ended: set[tuple[str, str, int]] = set()
        for entry in self.entries():
            if entry.what == "start":
                latest[entry.run] = entry
            else:
                ended.add((entry.run, entry.key, entry.attempt))
        return {run for run, x in latest.items() if x.pid == pid and (x.run, x.key, x.attempt) not in ended}

    async def cut_off(self, id: str, number: signal.Signals) -> tuple[set[str], float]:
        """Sends the signal to a busy worker: the runs it had in hand, and when."""
        process = await self._halted(id)
        os.kill(process.pid, number)
        at = time.monotonic()
        if number is signal.SIGKILL:
            await asyncio.to_thread(process.wait)
            assert process.stdout is not None
            process.stdout.close()
            del self.workers[id]
        return self.under_way(process.pid), at

    async def _halted(self, id: str) -> subprocess.Popen[str]:
        """The worker, stopped with runs in hand: while it works, its bodies may end between a look and a signal."""
        process = self.workers[id]
        while True:
            await self.is_busy(id)
            os.kill(process.pid, signal.SIGSTOP)
            if self.under_way(process.pid):
                return process
            os.kill(process.pid, signal.SIGCONT)

    async def pause(self, id: str) -> tuple[set[str], float]:
        """Stops a busy worker in its tracks, as `cut_off` does, but not in the middle of a write: a process that is
        stopped there keeps the lock of a SQLite file, and everybody waits for it."""
        while True:
            runs, at = await self.cut_off(id, signal.SIGSTOP)
            try:
                async with asyncio.timeout(1):
                    await self.feed(1)
            except (StoreError, TimeoutError):
                self.workers[id].send_signal(signal.SIGCONT)
            else:
                return runs, at

    async def taken_over(self, runs: set[str], pid: int, at: float) -> list[float]:
        """Waits until each of the runs goes on in another process; how long each took."""

        def times() -> dict[str, float]:
            found: dict[str, float] = {}
            for entry in self.entries():
                if entry.run in runs and entry.pid != pid and entry.at > at and entry.what == "start":
                    found.setdefault(entry.run, entry.at - at)
            return found

        await until(lambda: len(times()) == len(runs), "all runs of the worker that went away go on")
        return sorted(times().values())

    async def handed_over(self, id: str) -> list[float]:
        """Stops a busy worker with SIGTERM: how long its runs waited between their last body there and the next one
        elsewhere."""
        process = await self._halted(id)
        del self.workers[id]
        runs = self.under_way(process.pid)
        process.terminate()
        os.kill(process.pid, signal.SIGCONT)
        await asyncio.to_thread(end, process)
        assert process.returncode == 0

        def waits() -> dict[str, float | None]:
            found: dict[str, float | None] = {}
            for run in runs:
                mine = [entry for entry in self.entries() if entry.run == run]
                last = max(place for place, entry in enumerate(mine) if entry.pid == process.pid)
                if mine[last].key == jobs.KEYS[-1]:
                    continue  # it was the last: nothing to hand over
                found[run] = mine[last + 1].at - mine[last].at if len(mine) > last + 1 else None
            return found

        await until(lambda: None not in waits().values(), f"what {id} gave back goes on")
        return sorted(wait for wait in waits().values() if wait is not None)

    async def finish(self) -> None:
        """Waits for every run, then ends the workers."""
        for name in self.started:
            assert await (await self.app.get(name, jobs.job)).result(timeout=DEADLINE) == jobs.EXPECTED
        self.stop()

    def stop(self) -> None:
        """Ends every worker that is left."""
        for process in self.workers.values():
            if process.poll() is None:
                os.kill(process.pid, signal.SIGCONT)
            end(process)
        self.workers.clear()

    async def check(self) -> None:
        """Every run completed; no attempt began twice; no step began again once its completion was recorded; no body
        began before its attempt was."""
        entries = [entry for entry in self.entries() if entry.what == "start"]
        begun = Counter((entry.run, entry.key, entry.attempt) for entry in entries)
        twice = [attempt for attempt, count in begun.items() if count > 1]
        assert not twice, f"attempts that two workers began: {twice}"
        store = (await self.app.client()).store
        for name in self.started:
            final: dict[str, int] = {}
            done: Counter[str] = Counter()
            for row in await store.history(name):
                for event in decode_row(row).events:
                    if isinstance(event, e.StepScheduled | e.AttemptStarted):
                        final[event.key] = final.get(event.key, 0) + 1
                    elif isinstance(event, e.Claimed):
                        for key in event.restarted:
                            final[key] += 1
                    elif isinstance(event, e.StepCompleted):
                        done[event.key] += 1
            assert done == dict.fromkeys(jobs.KEYS, 1), f"{name}: {done}"
            late = [x for x in entries if x.run == name and x.attempt > final[x.key]]
            assert not late, f"bodies of attempts that no row knows: {late}"
