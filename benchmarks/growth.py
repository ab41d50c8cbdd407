"""W9: what a unit of work costs when there is a hundred times more of it. Holdfast alone: peers would take hours.

The cost of steps and children is told in processor time, which does not depend on the mood of the disk; the time that
passed is told beside it.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import ClassVar

import apsw

from benchmarks.program import app_at, family, one
from benchmarks.scale import Scale
from benchmarks.throughput import BEST_CONCURRENCY, finished, url_of
from holdfast import App, step, workflow
from holdfast.adapters.sqlite.store import open_sqlite
from holdfast.ports.leases import WorkerRow


class Marks:
    """When so many steps of the long run had been done: passed and processor seconds."""

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


async def w9(scale: Scale, folder: Path) -> dict[str, float]:
    """Steps of one run, claims among many rows, children of one parent."""
    return {
        **await _steps(scale.w9_steps, folder),
        **await _claims(scale.w9_rows, scale.w9_claims, folder),
        **await _children(scale.w9_children, folder),
    }


def _figures(what: str, sizes: tuple[int, ...], costs: list[float]) -> dict[str, float]:
    """The cost at each size, and how much dearer the dearest of the larger ones is than the smallest one."""
    names = ("small", "middle", "large")
    figures = {f"W9.{what}.{name}": cost for name, cost in zip(names, costs, strict=True)}
    return {**figures, f"W9.{what}.growth": max(costs[1:]) / costs[0]}


async def _steps(sizes: tuple[int, ...], folder: Path) -> dict[str, float]:
    """One run of the largest size; what it had cost when it had done as many steps as the smaller ones."""
    Marks.wanted = frozenset(sizes)
    Marks.met.clear()
    app = App(url_of(folder, "steps.db"), workflows=[long], step_limit=None)
    async with app, app.worker():
        await finished(app, [long(10)])
        began, processed = time.perf_counter(), time.process_time()
        await finished(app, [long(sizes[-1])])
    passed = [(Marks.met[size][0] - began) / size * 1e6 for size in sizes]
    processor = [(Marks.met[size][1] - processed) / size * 1e6 for size in sizes]
    walls = {f"W9.steps.{name}.wall": one for name, one in zip(("small", "middle", "large"), passed, strict=True)}
    return {**_figures("steps", sizes, processor), **walls}


async def _children(sizes: tuple[int, ...], folder: Path) -> dict[str, float]:
    """Parents of ever more children, each waiting for all of them at once."""
    processor: list[float] = []
    async with app_at(url_of(folder, "children.db")) as app, app.worker(concurrency=BEST_CONCURRENCY):
        await finished(app, [family(2)])
        for size in sizes:
            processed = time.process_time()
            await finished(app, [family(size)])
            processor.append((time.process_time() - processed) / size * 1e6)
    return _figures("children", sizes, processor)


async def _claims(sizes: tuple[int, ...], claims: int, folder: Path) -> dict[str, float]:
    """How long a claim takes among so many pending runs, on a store with full durability."""
    costs = [await _claim_milliseconds(folder / f"rows-{size}.db", size, claims) for size in sizes]
    return _figures("claim", sizes, costs)


async def _claim_milliseconds(path: Path, rows: int, claims: int) -> float:
    async with app_at(url_of(path.parent, path.name)) as app:
        await app.start(one(0), id="pattern")
    _multiply(path, rows)
    store = await open_sqlite(path)
    now = store.clock.now()
    worker = WorkerRow(
        instance="i", worker="w", queues=("default",), definitions=(("one", ""),), pid=0, host="", started_at=now
    )
    taken: list[float] = []
    try:
        for _ in range(claims):
            started = time.perf_counter()
            found = await store.claim(worker, limit=1, max_claims=5)
            taken.append((time.perf_counter() - started) * 1e3)
            assert len(found.runs) == 1
    finally:
        await store.close()
    return median(taken)


def _multiply(path: Path, rows: int) -> None:
    """Copies the one run that is there, without its journal, until there are so many."""
    connection = apsw.Connection(str(path))
    columns = [str(row[1]) for row in connection.execute("PRAGMA table_info(runs)") if row[1] not in {"no", "id"}]
    listed = ", ".join(columns)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute(
        f"INSERT INTO runs (id, {listed}) WITH RECURSIVE numbers (n) AS "  # noqa: S608 its own columns, read from itself
        f"(VALUES (1) UNION ALL SELECT n + 1 FROM numbers WHERE n < ?) "
        f"SELECT 'run-' || n, {listed} FROM numbers, runs WHERE id = 'pattern'",
        (rows,),
    )
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
