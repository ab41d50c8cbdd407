"""W7: what runs that sleep for an hour cost while they sleep."""

from __future__ import annotations

import asyncio
import gc
import time
from collections import Counter
from pathlib import Path

from benchmarks.counting import Connections
from benchmarks.process import resident_bytes
from benchmarks.program import app_at, parked
from benchmarks.scale import Scale
from benchmarks.throughput import url_of
from holdfast import App

AT_ONCE = 50


async def w7(scale: Scale, folder: Path) -> dict[str, float]:
    """Memory per run, and per second of idling: transactions, other statements, share of a processor."""
    with Connections() as connections:
        async with app_at(url_of(folder)) as app, app.worker():
            await park(app, max(AT_ONCE, scale.w7_runs // 20))
            before = _settled_bytes()
            await park(app, scale.w7_runs)
            per_run = (_settled_bytes() - before) / scale.w7_runs
            await asyncio.sleep(min(1.0, scale.w7_seconds / 4))
            processor = await _processor_share(scale.w7_seconds)
            with connections.counted() as statements:
                await asyncio.sleep(scale.w7_seconds)
            return {
                "W7.memory": per_run,
                "W7.cpu": processor * 100,
                "W7.writes": statements["COMMIT"] / scale.w7_seconds,
                "W7.reads": _reads(statements) / scale.w7_seconds,
                "W7.looks": statements["PRAGMA data_version"] / scale.w7_seconds,
            }


def _reads(statements: Counter[str]) -> int:
    return sum(count for text, count in statements.items() if text.startswith("SELECT"))


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
