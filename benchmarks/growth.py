"""W9: what a unit of work costs when there is a hundred times more of it. Holdfast alone: peers would take hours.

The cost of steps and children is told in processor time, which does not depend on the mood of the disk; the time that
passed is told beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import ClassVar

from benchmarks.places import Place
from benchmarks.program import app_at, family, one, wide
from benchmarks.scale import Scale
from benchmarks.throughput import finished
from holdfast import App, Call, step, workflow
from holdfast.ports.leases import ClaimRequest, WorkerRow
from holdfast.ports.store import Store

CHILDREN_AT_ONCE = 500


class Marks:
    """When that many steps of the long run had been done: passed and processor seconds."""

    wanted: frozenset[int] = frozenset()
    met: ClassVar[dict[int, tuple[float, float]]] = {}


@step
async def counted(n: int) -> dict[str, int]:
    if n in Marks.wanted:
        Marks.met[n] = (time.perf_counter(), time.process_time())
    return {"n": n}


@workflow
async def long(steps: int) -> int:
    for n in range(1, steps + 1):
        await counted(n)
    return steps


async def w9(scale: Scale, place: Place) -> dict[str, float]:
    """Steps of one run, one after the other and all at once, claims among many rows, children of one parent."""
    return {
        **await _steps(scale.w9_steps, place),
        **await _at_once("wide", wide, scale.w9_children, place),
        **await _claims(scale.w9_rows, scale.w9_claims, place),
        **await _at_once("children", family, scale.w9_children, place),
    }


def _figures(what: str, sizes: tuple[int, ...], costs: list[float]) -> dict[str, float]:
    """The cost at each size, and how much dearer the dearest of the larger ones is than the smallest one."""
    names = ("small", "middle", "large")
    figures = {f"W9.{what}.{name}": cost for name, cost in zip(names, costs, strict=True)}
    return {**figures, f"W9.{what}.growth": max(costs[1:]) / costs[0]}


async def _steps(sizes: tuple[int, ...], place: Place) -> dict[str, float]:
    """One run of the largest size; what it had cost when it had done as many steps as the smaller ones."""
    Marks.wanted = frozenset(sizes)
    Marks.met.clear()
    app = App(place.url("steps"), workflows=[long], step_limit=None)
    async with app, app.worker():
        await finished(app, [long(10)])
        began, processed = time.perf_counter(), time.process_time()
        await finished(app, [long(sizes[-1])])
    passed = [(Marks.met[size][0] - began) / size * 1e6 for size in sizes]
    processor = [(Marks.met[size][1] - processed) / size * 1e6 for size in sizes]
    walls = {f"W9.steps.{name}.wall": one for name, one in zip(("small", "middle", "large"), passed, strict=True)}
    return {**_figures("steps", sizes, processor), **walls}


async def _at_once(what: str, of: Callable[[int], Call[int]], sizes: tuple[int, ...], place: Place) -> dict[str, float]:
    """Runs that ask forever more at once, and wait for all of it."""
    processor: list[float] = []
    async with app_at(place.url(what)) as app, app.worker(concurrency=CHILDREN_AT_ONCE):
        await finished(app, [of(2)])
        for size in sizes:
            processed = time.process_time()
            await finished(app, [of(size)])
            processor.append((time.process_time() - processed) / size * 1e6)
    return _figures(what, sizes, processor)


async def _claims(sizes: tuple[int, ...], claims: int, place: Place) -> dict[str, float]:
    """How long a claim takes among that many pending runs, on a store with full durability."""
    costs = [await _claim_milliseconds(place, f"rows{size}", size, claims) for size in sizes]
    return _figures("claim", sizes, costs)


async def _claim_milliseconds(place: Place, name: str, rows: int, claims: int) -> float:
    async with app_at(place.url(name)) as app:
        await app.start(one(0), id="pattern")
    place.multiply(name, rows)
    async with app_at(place.url(name)) as app:
        return await _median_claim((await app.client()).store, claims)


async def _median_claim(store: Store, claims: int) -> float:
    now = store.clock.now()
    worker = WorkerRow(
        instance="i", worker="w", queues=("default",), definitions=(("one", ""),), pid=0, host="", started_at=now
    )
    taken: list[float] = []
    for _ in range(claims):
        started = time.perf_counter()
        found = await store.claim(ClaimRequest(worker=worker, limit=1, max_claims=5))
        taken.append((time.perf_counter() - started) * 1e3)
        assert len(found.runs) == 1
    return median(taken)
