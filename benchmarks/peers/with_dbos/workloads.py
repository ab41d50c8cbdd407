"""DBOS with its defaults: on SQLite that is a rollback journal with synchronous=FULL.

Runs are started without a queue, which is faster in every workload; what its queue makes of a single run is told beside
it (W4). Where it is slow fewer runs are measured: rates are compared, and the counts are told.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any

from dbos import DBOS, DBOSClient

from benchmarks.peers import Measure
from benchmarks.peers.grounds import Ground
from benchmarks.peers.with_dbos.program import QUEUE, launch, many_through, parked, through, through_queue
from benchmarks.process import Child, Gate, resident_bytes
from benchmarks.raw import percentile
from benchmarks.recovery import GATE, STEPS
from benchmarks.scale import Scale
from benchmarks.throughput import bytes_per_step, stores_to_fill

NAME = "dbos"
BY_DEFAULT, TUNED = 1, 50
"""Polls a second of a queue: as many as it has by default, and as many as make sense if it is to be quick."""


async def _rate(ground: Ground, units: int, work: Callable[[], Awaitable[object]]) -> float:
    launch(ground.url(NAME))
    try:
        await through(0)
        started = time.perf_counter()
        await work()
        return units / (time.perf_counter() - started)
    finally:
        DBOS.destroy()


async def w1(scale: Scale, ground: Ground) -> dict[str, float]:
    """1-step runs, all at once."""
    runs = scale.peer_runs
    rate = await _rate(ground, runs, lambda: asyncio.gather(*(through(n) for n in range(runs))))
    return {"W1.async": rate, "W1.runs": runs}


async def w2(scale: Scale, ground: Ground) -> dict[str, float]:
    """Steps of one run."""
    return {"W2.async": await _rate(ground, scale.w2_steps, lambda: many_through(scale.w2_steps))}


async def w3(scale: Scale, ground: Ground) -> dict[str, float]:
    """Steps of many runs at once."""
    runs, steps = scale.w3_runs, scale.w3_steps
    work = lambda: asyncio.gather(*(many_through(steps) for _ in range(runs)))  # noqa: E731 one use, one line
    return {"W3.async": await _rate(ground, runs * steps, work)}


async def w4(scale: Scale, ground: Ground) -> dict[str, float]:
    """One run at a time: without a queue, through one, and from another process, which goes through one: with its
    default polling, and asked as often as makes sense."""
    other = await _from_outside(ground.url("other"), scale.peer_queued, polls=BY_DEFAULT)
    tuned = await _from_outside(ground.url("tuned"), scale.w4_runs // 4 or 1, polls=TUNED)
    launch(ground.url(NAME))
    try:
        await DBOS.register_queue_async(QUEUE)
        direct = await _milliseconds(through, scale.w4_runs)
        queued = await _milliseconds(through_queue, scale.peer_queued)
    finally:
        DBOS.destroy()
    return {
        "W4.async.p50": median(direct),
        "W4.async.p95": percentile(direct, 95),
        "W4.queue.p50": median(queued),
        "W4.other.p50": median(other),
        "W4.tuned.p50": median(tuned),
    }


async def _from_outside(url: str, times: int, *, polls: int) -> list[float]:
    with Child("peers.with_dbos.worker", url, "serve", str(polls)) as worker:
        await asyncio.to_thread(worker.line)
        client = DBOSClient(system_database_url=url, application_name="bench")

        async def enqueued(n: int) -> None:
            options = {"queue_name": QUEUE, "workflow_name": "one"}
            handle: Any = await client.enqueue_async(options, n)  # type: ignore[arg-type]
            await handle.get_result(polling_interval_sec=1 / polls)

        taken = await _milliseconds(enqueued, times)
        client.destroy()
    return taken


async def _milliseconds(work: Callable[[int], Awaitable[None]], times: int) -> list[float]:
    await work(0)
    taken: list[float] = []
    for n in range(times):
        started = time.perf_counter()
        await work(n)
        taken.append((time.perf_counter() - started) * 1e3)
    return taken


def _left(runs: int, steps: int, gate: int) -> Callable[[str], Awaitable[None]]:
    """What a process leaves that is killed with all runs at their gate."""

    async def make(url: str) -> None:
        words = ("start", str(runs), str(steps), str(gate))
        with Child("peers.with_dbos.worker", url, *words, blocks=True) as process:
            await asyncio.to_thread(process.line)
            process.kill()

    return make


async def w5(scale: Scale, ground: Ground) -> dict[str, float]:
    """Runs left in step 6 of 10 by a killed process, taken up again at launch; the launch of the process apart."""
    runs = scale.w5_runs
    url = await ground.copied("blocked", _left(runs, STEPS, GATE))
    with Child("peers.with_dbos.worker", url, "recover", str(runs)) as process:
        said = await asyncio.to_thread(process.line)
        schema = "" if url.startswith("sqlite") else "dbos."
        query = f"SELECT count(*) FROM {schema}workflow_status WHERE status = 'SUCCESS'"  # noqa: S608 one of two names
        while ground.count(url, query) < runs:  # noqa: ASYNC110 the last ends are on their way to the database
            await asyncio.sleep(0.02)
        ended_at = time.monotonic()
    return {"W5.after": ended_at - said["launching"], "W5.again": ended_at - process.launched_at}


async def w6(scale: Scale, ground: Ground) -> dict[str, float]:
    """A run with many completed steps taken up by a fresh process, until its next step begins."""
    url = await ground.copied("long", _left(1, scale.w6_steps + 1, scale.w6_steps + 1))
    with Child("peers.with_dbos.worker", url, "resume") as process:
        said = await asyncio.to_thread(process.line)
    return {
        "W6.launch": said["step"] - process.launched_at,
        "W6.main": (said["step"] - said["imported"]) * 1e3,
        "W6.program": (said["step"] - said["body"]) * 1e3,
        "W6.peak": said["peak"] / 1e6,
    }


async def w7(scale: Scale, ground: Ground) -> dict[str, float]:
    """Runs that sleep for an hour: memory each, and the processor while nothing happens."""
    runs = scale.peer_runs
    launch(ground.url(NAME))
    try:
        await _parked(runs // 5)
        gc.collect()
        before = resident_bytes()
        await _parked(runs)
        gc.collect()
        memory = (resident_bytes() - before) / runs
        await asyncio.sleep(min(2.0, scale.w7_seconds / 2))
        started, processed = time.perf_counter(), time.process_time()
        await asyncio.sleep(scale.w7_seconds)
        share = (time.process_time() - processed) / (time.perf_counter() - started)
    finally:
        DBOS.destroy(workflow_completion_timeout_sec=0)
    return {"W7.memory": memory, "W7.cpu": share * 100, "W7.runs": runs}


async def _parked(runs: int) -> None:
    expected = Gate.entered + runs
    await asyncio.gather(*(DBOS.start_workflow_async(parked) for _ in range(runs)))
    while Gate.entered < expected:  # noqa: ASYNC110 the body does nothing but count
        await asyncio.sleep(0.01)


async def w8(scale: Scale, ground: Ground) -> dict[str, float]:
    """Bytes on disk that a step adds."""
    runs, steps = max(2, scale.w8_runs // 10), scale.w8_steps
    found: dict[str, int] = {}
    for name, given in stores_to_fill(runs, steps).items():
        url = ground.url(name)
        launch(url)
        try:
            await asyncio.gather(*map(many_through, given))
        finally:
            DBOS.destroy()
        found[name] = ground.stored_bytes(url)
    return bytes_per_step(found, runs, steps)


WORKLOADS: dict[str, Measure] = {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W6": w6, "W7": w7, "W8": w8}
