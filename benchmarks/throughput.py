"""W1, W2, W3 and W8: how many runs and steps per second, and what they leave on the disk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apsw

from benchmarks.program import app_at, many, many_sync, many_threaded, one, one_sync, one_threaded
from benchmarks.raw import BesideRaw
from benchmarks.scale import Scale
from holdfast import App, Call

Colours = dict[str, Callable[[int], Call[Any]]]

ONE: Colours = {"async": one, "threaded": one_threaded, "sync": one_sync.call}
MANY: Colours = {"async": many, "threaded": many_threaded, "sync": many_sync.call}
BEST_CONCURRENCY = 500
"""Slots for many short runs; more gains nothing here."""


def url_of(folder: Path, name: str = "bench.db") -> str:
    """The store of a workload."""
    return f"sqlite:///{folder / name}"


async def finished(app: App, calls: Sequence[Call[Any]]) -> None:
    """Starts them all and waits for every result."""

    async def through(call: Call[Any]) -> None:
        await (await app.start(call)).result()

    await asyncio.gather(*map(through, calls))


async def _measured(
    folder: Path, scale: Scale, colours: Colours, given: list[int], units: int, name: str
) -> dict[str, float]:
    """Units per second in each colour, beside raw commits, and the processor time of one."""
    figures: dict[str, float] = {}
    beside = BesideRaw(folder, scale.raw_commits)
    beside.take()
    for colour, make in colours.items():
        url = url_of(folder, f"{colour}.db")
        async with app_at(url) as app, app.worker(concurrency=BEST_CONCURRENCY):
            await finished(app, [make(1)])
            started, processed = time.perf_counter(), time.process_time()
            await finished(app, [make(n) for n in given])
            rate = units / (time.perf_counter() - started)
            processor = (time.process_time() - processed) / units
        figures[f"{name}.{colour}"] = rate
        figures[f"{name}.{colour}.raw"] = rate / beside.take()
        figures[f"{name}.{colour}.cpu"] = processor * 1e6
    beside.close()
    return figures


async def w1(scale: Scale, folder: Path) -> dict[str, float]:
    """1-step runs per second, all enqueued at once, to the last one completed."""
    return await _measured(folder, scale, ONE, list(range(scale.w1_runs)), scale.w1_runs, "W1")


async def w2(scale: Scale, folder: Path) -> dict[str, float]:
    """Steps per second of one run, one after the other."""
    return await _measured(folder, scale, MANY, [scale.w2_steps], scale.w2_steps, "W2")


async def w3(scale: Scale, folder: Path) -> dict[str, float]:
    """Steps per second of many runs at once."""
    return await _measured(folder, scale, MANY, [scale.w3_steps] * scale.w3_runs, scale.w3_runs * scale.w3_steps, "W3")


async def w8(scale: Scale, folder: Path) -> dict[str, float]:
    """Bytes of the file per step, after a checkpoint, beyond an empty store: one long run, and many short ones."""
    runs, steps = scale.w8_runs, scale.w8_steps
    sizes: dict[str, list[int]] = {"empty": [], "one": [runs * steps], "many": [steps] * runs}
    found: dict[str, int] = {}
    for name, given in sizes.items():
        path = folder / f"{name}.db"
        async with app_at(url_of(folder, path.name)) as app, app.worker():
            await finished(app, [many(n) for n in given])
        found[name] = bytes_after_checkpoint(path)
    return {
        "W8.one": (found["one"] - found["empty"]) / sum(sizes["one"]),
        "W8.many": (found["many"] - found["empty"]) / sum(sizes["many"]),
    }


def bytes_after_checkpoint(path: Path) -> int:
    """The size of the file with its log taken in."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    return path.stat().st_size
