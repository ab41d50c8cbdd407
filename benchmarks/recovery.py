"""W5 and W6: how long until the work of a killed process continues."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import apsw

from benchmarks.places import Place
from benchmarks.process import BLOCK, Child, Gate
from benchmarks.program import app_at, blocked
from benchmarks.scale import Scale
from benchmarks.throughput import url_of
from holdfast import App, Status
from holdfast.adapters.sqlite.store import open_sqlite

STEPS, GATE = 10, 6
SLOTS = "100"
"""As a worker has by default."""


async def w5(scale: Scale, place: Place) -> dict[str, float]:
    """Runs blocked in step 6 of 10, their worker SIGKILLed, until all are completed. The worker that takes over has
    default settings.

    By another worker: the seconds until the dead one's lease had run out are read from its row and told apart. By the
    same worker started again: its id is configured, so it need not wait; the launch of its process is included.
    """
    runs, ttl = scale.w5_runs, scale.ttl_seconds
    by_other = await _killed(place, "other", runs, ttl, successor="second")
    restarted = await _killed(place, "again", runs, ttl, successor="first")
    return {
        "W5.total": by_other["total"],
        "W5.lease": by_other["lease"],
        "W5.after": by_other["total"] - by_other["lease"],
        "W5.again": restarted["total"],
    }


async def _killed(place: Place, name: str, runs: int, ttl: float, *, successor: str) -> dict[str, float]:
    url = place.url(name)
    async with app_at(url) as app:
        with Child("serving", url, "first", str(runs + 10), str(ttl), str(runs), blocks=True) as first:
            first.line()
            await asyncio.gather(*(app.start(blocked(STEPS, GATE)) for _ in range(runs)))
            await asyncio.to_thread(first.line)
            if successor == "first":
                killed_at = first.kill()
                lease = 0.0
                second = Child("serving", url, successor, SLOTS, str(ttl))
            else:
                second = Child("serving", url, successor, SLOTS, str(ttl))
                await asyncio.to_thread(second.line)
                killed_at = first.kill()
                lease = place.lease_left(name, "first")
            with second:
                await _all_completed(app, runs)
                return {"total": time.monotonic() - killed_at, "lease": lease}


async def _all_completed(app: App, runs: int) -> None:
    store = (await app.client()).store
    while (await store.count())[Status.COMPLETED] < runs:  # noqa: ASYNC110 another process works
        await asyncio.sleep(0.01)


async def w6(scale: Scale, place: Place) -> dict[str, float]:
    """A run with many completed steps taken back by a fresh process, until its next step begins."""
    url = place.url("long")
    with Child("serving", url, "w6", SLOTS, "15", "1", blocks=True) as first:
        first.line()
        async with app_at(url) as app:
            await app.start(blocked(scale.w6_steps + 1, scale.w6_steps + 1))
            await asyncio.to_thread(first.line)
            first.kill()
    with Child("resuming", url, "w6") as process:
        said = await asyncio.to_thread(process.line)
    with Child("connecting", url) as bare:
        least = (await asyncio.to_thread(bare.line))["answered"] - bare.launched_at
    end = said["step"]
    return {
        "W6.launch": end - process.launched_at,
        "W6.least": least,
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
