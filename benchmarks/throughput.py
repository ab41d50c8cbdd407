"""W1, W2, W3 and W8: how many runs and steps per second, and what they leave on the disk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.places import Place
from benchmarks.program import app_at, many, many_sync, many_threaded, one, one_sync, one_threaded
from benchmarks.raw import BesideRaw
from benchmarks.scale import Scale
from holdfast import App, Call

Colours = dict[str, Callable[[int], Call[Any]]]

ONE: Colours = {"async": one, "threaded": one_threaded, "sync": one_sync.call}
MANY: Colours = {"async": many, "threaded": many_threaded, "sync": many_sync.call}
SLOTS = {"async": 2_000, "threaded": 2_000, "sync": 500}
"""For many short runs, the best for each colour: one that finds a slot is begun with its start, and needs no claim; but
a plain workflow holds a thread for as long as it has a slot."""


def url_of(folder: Path, name: str = "bench.db") -> str:
    """A SQLite store in a folder."""
    return f"sqlite:///{folder / name}"


async def finished(app: App, calls: Sequence[Call[Any]]) -> None:
    """Starts them all and waits for every result."""

    async def through(call: Call[Any]) -> None:
        await (await app.start(call)).result()

    await asyncio.gather(*map(through, calls))


async def _measured(
    place: Place, scale: Scale, colours: Colours, given: list[int], units: int, name: str
) -> dict[str, float]:
    """Units per second in each colour, beside raw commits, and the processor time of one."""
    figures: dict[str, float] = {}
    beside = BesideRaw(place.raw(), scale.raw_commits)
    beside.take()
    for colour, make in colours.items():
        async with app_at(place.url(colour)) as app, app.worker(concurrency=SLOTS[colour]):
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


async def w1(scale: Scale, place: Place) -> dict[str, float]:
    """1-step runs per second, all enqueued at once, to the last one completed."""
    return await _measured(place, scale, ONE, list(range(scale.w1_runs)), scale.w1_runs, "W1")


async def w2(scale: Scale, place: Place) -> dict[str, float]:
    """Steps per second of one run, one after the other."""
    return await _measured(place, scale, MANY, [scale.w2_steps], scale.w2_steps, "W2")


async def w3(scale: Scale, place: Place) -> dict[str, float]:
    """Steps per second of many runs at once."""
    return await _measured(place, scale, MANY, [scale.w3_steps] * scale.w3_runs, scale.w3_runs * scale.w3_steps, "W3")


async def w8(scale: Scale, place: Place) -> dict[str, float]:
    """Bytes on disk that a step adds to a store with some steps already: of one long run, and of many short ones."""
    found: dict[str, int] = {}
    for name, given in stores_to_fill(scale.w8_runs, scale.w8_steps).items():
        async with app_at(place.url(name)) as app, app.worker():
            await finished(app, [many(n) for n in given])
        found[name] = place.stored_bytes(name)
    return bytes_per_step(found, scale.w8_runs, scale.w8_steps)


def stores_to_fill(runs: int, steps: int) -> dict[str, list[int]]:
    """Steps of the runs of four stores: few and five times as many, in one run and in many. The difference counts: the
    first pages of tables and indexes belong to no step."""
    few = _few(runs)
    return {"one_few": [few * steps], "one": [runs * steps], "many_few": [steps] * few, "many": [steps] * runs}


def bytes_per_step(found: Mapping[str, int], runs: int, steps: int) -> dict[str, float]:
    """The figures of W8, from the sizes of these stores."""
    more = (runs - _few(runs)) * steps
    return {f"W8.{name}": (found[name] - found[f"{name}_few"]) / more for name in ("one", "many")}


def _few(runs: int) -> int:
    return max(1, runs // 5)
