"""W4: from start to result of a 1-step run, one at a time, in process and with the worker in another."""

from __future__ import annotations

import time
from statistics import median

from benchmarks.places import Place
from benchmarks.process import Child
from benchmarks.program import app_at
from benchmarks.raw import BesideRaw, percentile
from benchmarks.scale import Scale
from benchmarks.throughput import ONE
from holdfast import App


async def _latencies(app: App, runs: int, colour: str, name: str) -> dict[str, float]:
    make = ONE[colour]
    await (await app.start(make(0))).result()
    taken: list[float] = []
    for n in range(runs):
        started = time.perf_counter()
        await (await app.start(make(n))).result()
        taken.append((time.perf_counter() - started) * 1e3)
    return {f"W4.{name}.p50": median(taken), f"W4.{name}.p95": percentile(taken, 95)}


async def w4(scale: Scale, place: Place) -> dict[str, float]:
    """Milliseconds, with default settings; beside raw: how many 1-row commits the median takes as long as."""
    figures: dict[str, float] = {}
    beside = BesideRaw(place.raw(), scale.raw_commits)
    beside.take()
    for colour in ("async", "threaded"):
        async with app_at(place.url(colour)) as app, app.worker():
            figures |= await _latencies(app, scale.w4_runs, colour, colour)
        figures[f"W4.{colour}.p50.raw"] = figures[f"W4.{colour}.p50"] / 1e3 * beside.take()
    url = place.url("shared")
    async with app_at(url) as app:
        with Child("serving", url, "w4", "100", "15") as worker:
            worker.line()
            figures |= await _latencies(app, scale.w4_runs, "async", "other")
    figures["W4.other.p50.raw"] = figures["W4.other.p50"] / 1e3 * beside.take()
    beside.close()
    return figures
