"""Absurd with its defaults. Throughput is measured with four workers, which have a connection each: one connection does
one thing at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from statistics import median
from typing import Any

from benchmarks.peers import Measure
from benchmarks.peers.grounds import Ground
from benchmarks.peers.with_absurd.program import COMPLETED, connected, prepare
from benchmarks.raw import percentile
from benchmarks.scale import Scale

WORKERS = 4
TASKS_EACH = 25


@asynccontextmanager
async def _working(ground: Ground, workers: int, tasks: int) -> AsyncIterator[str]:
    """The address of a database with that many workers."""
    url = ground.url("absurd")
    prepare(url)
    clients = [connected(url) for _ in range(workers)]
    serving = [asyncio.create_task(client.start_worker(concurrency=tasks)) for client in clients]
    try:
        yield url
    finally:
        for client in clients:
            client.stop_worker()
        await asyncio.gather(*serving)
        for client in clients:
            await client.close()


async def _rate(ground: Ground, calls: Sequence[tuple[str, Any]], units: int, *, workers: int = WORKERS) -> float:
    async with _working(ground, workers, TASKS_EACH) as url:
        client = connected(url)
        await client.spawn("one", {"n": 0})
        await _completed(ground, url, 1)
        started = time.perf_counter()
        for name, params in calls:
            await client.spawn(name, params)
        await _completed(ground, url, len(calls) + 1)
        rate = units / (time.perf_counter() - started)
        await client.close()
    return rate


async def _completed(ground: Ground, url: str, tasks: int) -> None:
    while await asyncio.to_thread(ground.count, url, COMPLETED) < tasks:  # noqa: ASYNC110 others work
        await asyncio.sleep(0.01)


async def w1(scale: Scale, ground: Ground) -> dict[str, float]:
    """1-step tasks, spawned as fast as one client can while the workers are at work."""
    runs = scale.peer_runs
    rate = await _rate(ground, [("one", {"n": n}) for n in range(runs)], runs)
    return {"W1.async": rate, "W1.runs": runs}


async def w2(scale: Scale, ground: Ground) -> dict[str, float]:
    """Steps of one task."""
    steps = scale.w2_steps
    return {"W2.async": await _rate(ground, [("many", {"steps": steps})], steps, workers=1)}


async def w3(scale: Scale, ground: Ground) -> dict[str, float]:
    """Steps of many tasks at once."""
    runs, steps = scale.w3_runs, scale.w3_steps
    return {"W3.async": await _rate(ground, [("many", {"steps": steps})] * runs, runs * steps)}


async def w4(scale: Scale, ground: Ground) -> dict[str, float]:
    """One task at a time, with default polling of worker and client."""
    taken: list[float] = []
    async with _working(ground, 1, 1) as url:
        client = connected(url)
        for n in range(scale.peer_queued * 4):
            started = time.perf_counter()
            spawned = await client.spawn("one", {"n": n})
            await client.await_task_result(str(spawned["task_id"]))
            taken.append((time.perf_counter() - started) * 1e3)
        await client.close()
    return {"W4.queue.p50": median(taken), "W4.queue.p95": percentile(taken, 95)}


WORKLOADS: dict[str, Measure] = {"W1": w1, "W2": w2, "W3": w3, "W4": w4}
