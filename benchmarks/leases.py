"""`python -m benchmarks.leases`: what leases by etcd and NATS cost beside the store's own, and how fast they grant.

W1 to W4 in small, in turns, on PostgreSQL and SQLite: the ratio of two figures of the same round carries over to
another machine. Then 10,000 runs of 100 workers: a batch of grants, grants one by one, grants taken over, and the
recovery of one worker's runs (`lease_recovery`). Each manager is one server of the tests.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.lease_recovery import RUNS_EACH, TTL, WORKERS, recovered
from benchmarks.lease_section import RESULTS
from benchmarks.machine import machine, versions
from benchmarks.program import many, one
from benchmarks.throughput import finished
from holdfast import App
from holdfast.config import Configuration, LeaseSettings, UpkeepSettings
from holdfast.ports.grants import Grant
from holdfast.stores import OpenedGrants, open_grants
from tests.support import etcd, nats
from tests.support.etcd import new_prefix
from tests.support.postgres import clean_url

KINDS: Final = ("store", "etcd", "nats")
PARTS: Final = ("grants", "recovery", "costs")
ONE_BY_ONE: Final = 200
SIZES: Final = {"w1": 500, "w2": 300, "w3": 50, "steps": 10, "w4": 50}


def settings(kind: Any) -> LeaseSettings:
    if kind == "store":
        return LeaseSettings(ttl=TTL)
    endpoints = (etcd if kind == "etcd" else nats).endpoints().addresses
    return LeaseSettings(type=kind, endpoints=endpoints, ttl=TTL, prefix=new_prefix())


# -- W1 to W4 ----------------------------------------------------------------------------------------------------------


async def w1(app: App) -> float:
    """Seconds for a run of one step, of many at once."""
    return await _timed(lambda: finished(app, [one(number) for number in range(SIZES["w1"])])) / SIZES["w1"]


async def w2(app: App) -> float:
    """Seconds for a step of one run."""
    return await _timed(lambda: finished(app, [many(SIZES["w2"])])) / SIZES["w2"]


async def w3(app: App) -> float:
    """Seconds for a step, of many runs at once."""
    runs = [many(SIZES["steps"])] * SIZES["w3"]
    return await _timed(lambda: finished(app, runs)) / (SIZES["w3"] * SIZES["steps"])


async def w4(app: App) -> float:
    """Seconds from start to result, one run after the other, the median."""
    taken = [await _timed(lambda: finished(app, [one(1)])) for _ in range(SIZES["w4"])]
    return median(taken)


WORKLOADS: Final[dict[str, Callable[[App], Awaitable[float]]]] = {"W1": w1, "W2": w2, "W3": w3, "W4": w4}


async def _timed(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


async def costs(store: str, rounds: int) -> dict[str, dict[str, dict[str, float]]]:
    """By workload: milliseconds with the store's own leases, and how many times as long it takes with a manager."""
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds):
        for kind in KINDS:
            with tempfile.TemporaryDirectory() as folder:
                url = clean_url() if store == "postgresql" else f"sqlite:///{Path(folder) / 'bench.db'}"
                config = Configuration(leases=settings(kind), upkeep=UpkeepSettings(snapshot_every=0))
                app = App(url, workflows=[one, many], config=config)
                async with app.worker(id="w"):
                    await finished(app, [one(1)])
                    for name, measure in WORKLOADS.items():
                        found.setdefault((name, kind), []).append(await measure(app))
    shown: dict[str, dict[str, dict[str, float]]] = {}
    for name in WORKLOADS:
        base = found[name, "store"]
        shown[name] = {"store": _spread([took * 1000 for took in base])}
        for kind in KINDS[1:]:
            shown[name][kind] = _spread([took / by for took, by in zip(found[name, kind], base, strict=True)])
    return shown


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": round(median(values), 3), "least": round(min(values), 3), "most": round(max(values), 3)}


# -- grants ------------------------------------------------------------------------------------------------------------


async def granted(grants: OpenedGrants) -> dict[str, float]:
    """The grants of 10,000 runs of 100 workers, and those of one of them taken over."""
    runs = [[f"order-{worker}-{number}" for number in range(RUNS_EACH)] for worker in range(WORKERS)]
    began = time.perf_counter()
    for worker, part in enumerate(runs):
        await _all_granted(grants, part, f"w{worker}")
    batched = (time.perf_counter() - began) / (WORKERS * RUNS_EACH)
    singly = await _timed(lambda: _one_by_one(grants)) / ONE_BY_ONE
    stream = grants.orphans()
    assert stream is not None
    await _listening(grants, stream)
    began = time.perf_counter()
    await grants.release_all("w7")
    while not (await anext(stream)).startswith("order-7-"):
        pass
    pushed = time.perf_counter() - began
    await _all_granted(grants, runs[7], "w8")
    taken = time.perf_counter() - began
    for worker in range(WORKERS):
        await grants.release_all(f"w{worker}")
    await stream.aclose()  # type: ignore[attr-defined]
    return {
        "ms for a grant, in batches of a hundred": round(batched * 1000, 3),
        "ms for a grant, one by one": round(singly * 1000, 3),
        "ms until the first of 100 runs is told to others": round(pushed * 1000, 1),
        "ms until another worker has the grants of all 100": round(taken * 1000, 1),
    }


async def _listening(grants: OpenedGrants, stream: AsyncIterator[str]) -> None:
    """Until the stream has heard of every key: it reports each that comes and goes."""
    told = asyncio.ensure_future(anext(stream))
    while not told.done():
        await grants.acquire("probe", "w0", TTL)
        await grants.release("probe", "w0")
        await asyncio.wait([told], timeout=0.2)


async def _all_granted(grants: OpenedGrants, runs: Sequence[str], worker: str) -> None:
    answers = await grants.acquire_many(runs, worker, TTL)
    assert all(isinstance(answer, Grant) for answer in answers.values())


async def _one_by_one(grants: OpenedGrants) -> None:
    for number in range(ONE_BY_ONE):
        await grants.acquire(f"single-{number}", "w0", TTL)


async def all_granted() -> dict[str, dict[str, float]]:
    """The grants of each manager."""
    found: dict[str, dict[str, float]] = {}
    for kind in KINDS[1:]:
        opened = await open_grants(settings(kind), TTL)
        assert opened is not None
        await opened.own(1)
        found[kind] = await granted(opened)
        await opened.close()
    return found


async def main(parts: Sequence[str], stores: Sequence[str], rounds: int, *, is_recorded: bool) -> None:
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    found |= {"machine": {**machine(), "python": versions()["python"]}, "rounds": rounds}
    found["sizes"] = {**SIZES, "workers": WORKERS, "grants": WORKERS * RUNS_EACH, "each": RUNS_EACH}
    for part in parts:
        before = os.getloadavg()[0]
        if part == "grants":
            found[part] = await all_granted()
        elif part == "recovery":
            found[part] = await recovered({kind: settings(kind) for kind in KINDS})
        else:
            found[part] = {store: await costs(store, rounds) for store in stores}
        found.setdefault("loads", {})[part] = f"{before:.1f} before and {os.getloadavg()[0]:.1f} after"
    text = json.dumps(found, indent=2) + "\n"
    sys.stdout.write(text)
    if is_recorded:
        RESULTS.write_text(text, encoding="utf-8")
        sys.stdout.write("== written; `python3 dev.py bench --render` generates the page again\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.leases", description=__doc__)
    parser.add_argument("--part", choices=PARTS, action="append", help="this one alone; may be repeated")
    parser.add_argument("--store", choices=["sqlite", "postgresql"], action="append", help="this one; may be repeated")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--record", action="store_true", help="write leases.json, which the page is made from")
    given = parser.parse_args()
    stores = given.store or ["postgresql", "sqlite"]
    asyncio.run(main(given.part or PARTS, stores, given.rounds, is_recorded=given.record))
