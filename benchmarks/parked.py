"""W7: what runs that sleep for an hour cost while they sleep."""

from __future__ import annotations

import asyncio
import gc
import time

from benchmarks.places import Place
from benchmarks.process import resident_bytes
from benchmarks.program import app_at, parked
from benchmarks.scale import Scale
from holdfast import App

AT_ONCE = 50


async def w7(scale: Scale, place: Place) -> dict[str, float]:
    """Memory per run, and per second of idling: transactions, other statements, share of a processor."""
    with place.counted() as counts:
        async with app_at(place.url("parked")) as app, app.worker():
            await park(app, max(AT_ONCE, scale.w7_runs // 4))  # what the process takes once is no run's
            before = _settled_bytes()
            await park(app, scale.w7_runs)
            per_run = (_settled_bytes() - before) / scale.w7_runs
            await asyncio.sleep(min(1.0, scale.w7_seconds / 4))
            processor = await _processor_share(scale.w7_seconds)
            with counts.during() as counted:
                await asyncio.sleep(scale.w7_seconds)
            asked = {f"W7.{what}": count / scale.w7_seconds for what, count in counted.items()}
            return {"W7.memory": per_run, "W7.cpu": processor * 100, **asked}


async def park(app: App, runs: int) -> None:
    """Starts them, some at a time, and waits until all have given their lease back."""
    store = (await app.client()).store

    async def through() -> None:
        run = await app.start(parked())
        while (row := await store.get(run.id)) is None or row.instance or row.started_at is None:  # noqa: ASYNC110 only the store knows
            await asyncio.sleep(0.002)

    for _ in range(0, runs, AT_ONCE):
        await asyncio.gather(*(through() for _ in range(AT_ONCE)))


def _settled_bytes() -> int:
    gc.collect()
    return resident_bytes()


async def _processor_share(seconds: float) -> float:
    started, processed = time.perf_counter(), time.process_time()
    await asyncio.sleep(seconds)
    return (time.process_time() - processed) / (time.perf_counter() - started)
