"""W5 and W6: how long until the work of a killed process goes on."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import apsw

from benchmarks.process import BLOCK, Child, Gate
from benchmarks.program import app_at, blocked
from benchmarks.scale import Scale
from benchmarks.throughput import url_of
from holdfast import App, Status
from holdfast.adapters.sqlite.store import open_sqlite

STEPS, GATE = 10, 6


async def w5(scale: Scale, folder: Path) -> dict[str, float]:
    """Runs blocked in step 6 of 10, their worker SIGKILLed, until all are completed.

    By another worker: the seconds until the dead one's lease had run out are read from its row and told apart. By the
    same worker started again: its id is configured, so it need not wait; the launch of its process is included.
    """
    runs, ttl = scale.w5_runs, scale.ttl_seconds
    by_other = await _killed(folder / "other.db", runs, ttl, successor="other")
    restarted = await _killed(folder / "again.db", runs, ttl, successor="first")
    return {
        "W5.total": by_other["total"],
        "W5.lease": by_other["lease"],
        "W5.after": by_other["total"] - by_other["lease"],
        "W5.again": restarted["total"],
    }


async def _killed(path: Path, runs: int, ttl: float, *, successor: str) -> dict[str, float]:
    url = url_of(path.parent, path.name)
    slots = str(runs + 10)
    async with app_at(url) as app:
        with Child("serving", url, "first", slots, str(ttl), str(runs), blocks=True) as first:
            first.line()
            await asyncio.gather(*(app.start(blocked(STEPS, GATE)) for _ in range(runs)))
            await asyncio.to_thread(first.line)
            if successor == "first":
                killed_at = first.kill()
                lease = 0.0
                second = Child("serving", url, successor, slots, str(ttl))
            else:
                second = Child("serving", url, successor, slots, str(ttl))
                await asyncio.to_thread(second.line)
                killed_at = first.kill()
                lease = _seconds_left(path, "first")
            with second:
                await _all_completed(app, runs)
                return {"total": time.monotonic() - killed_at, "lease": lease}


def _seconds_left(path: Path, worker: str) -> float:
    """Until the lease of a worker has run out, from its row."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        rows: list[Any] = connection.execute("SELECT expires FROM workers WHERE worker = ?", (worker,)).fetchall()
    finally:
        connection.close()
    expires_at: float = rows[0][0] / 1e6
    return max(0.0, expires_at - time.clock_gettime(time.CLOCK_BOOTTIME))


async def _all_completed(app: App, runs: int) -> None:
    store = (await app.client()).store
    while (await store.count())[Status.COMPLETED] < runs:  # noqa: ASYNC110 another process works
        await asyncio.sleep(0.01)


async def w6(scale: Scale, folder: Path) -> dict[str, float]:
    """A run with many completed steps taken back by a fresh process, until its next step begins."""
    path = await long_run(folder, scale.w6_steps)
    with Child("resuming", url_of(folder, path.name), "w6") as process:
        said = await asyncio.to_thread(process.line)
    end = said["step"]
    return {
        "W6.launch": end - process.launched_at,
        "W6.main": (end - said["imported"]) * 1e3,
        "W6.claim": (end - said["claimed"]) * 1e3,
        "W6.program": (end - said["body"]) * 1e3,
        "W6.peak": said["peak"] / 1e6,
        "W6.grown": said["grown"] / 1e6,
    }


async def long_run(folder: Path, steps: int) -> Path:
    """A store whose one run a worker left in its last step. Written without syncing: only its content counts."""
    path = folder / "long.db"
    store = await open_sqlite(url_of(folder, "made.db"), durability="off")
    app = App(workflows=[blocked], step_limit=None, store=store)
    os.environ[BLOCK] = "1"
    entered = Gate.entered
    try:
        async with app.worker(id="w6", grace=0):
            await app.start(blocked(steps + 1, steps + 1))
            while Gate.entered == entered:  # noqa: ASYNC110 as in `resuming`
                await asyncio.sleep(0.01)
            _copy(folder / "made.db", path)
    finally:
        del os.environ[BLOCK]
        await store.close()
    return path


def _copy(source: Path, target: Path) -> None:
    """A consistent copy, as a process that was killed now would leave it."""
    theirs = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)
    ours = apsw.Connection(str(target))
    with ours.backup("main", theirs, "main") as copying:
        copying.step()
    ours.close()
    theirs.close()
