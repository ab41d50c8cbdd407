"""The recovery of a worker's runs while 100 others hold 10,000: what a worker that comes back under its id waits for.

The 10,000 are claimed in the store and, with a manager, granted there. A worker more begins a hundred runs, whose steps
wait, and is crashed; then it starts again. The time is from that start to the result of the last of its runs: it
registers, asks for its grants, claims, loads the journals, and runs the step of each again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from statistics import median
from typing import Final

import msgspec

from benchmarks.program import one
from holdfast import App, step, workflow
from holdfast.config import Configuration, LeaseSettings, UpkeepSettings
from holdfast.ports.grants import Grant
from holdfast.ports.leases import ClaimRequest
from holdfast.stores import open_grants
from tests.support.postgres import clean_url
from tests.support.world import crash

WORKERS: Final = 100
RUNS_EACH: Final = 100
TRIALS: Final = 5
TTL: Final = timedelta(minutes=5)
"""Longer than all of it takes: nobody is taken for dead."""


LEAVE: Final = asyncio.Event()
"""Steps wait for it."""

BEGAN: Final[list[int]] = []
"""A place for each step that has begun."""


@step
async def waited(n: int) -> int:
    BEGAN.append(n)
    await LEAVE.wait()
    return n


@workflow
async def waiting(n: int) -> int:
    return await waited(n)


async def recovered(kinds: Mapping[str, LeaseSettings]) -> dict[str, dict[str, float]]:
    """Milliseconds with each kind of leases, on one PostgreSQL: of some trials, with a worker each."""
    url = clean_url()
    runs = await _held_by_many(url)
    found: dict[str, dict[str, float]] = {}
    for kind, settings in kinds.items():
        app = _app(url, settings)
        async with app:
            await _granted(app, settings, runs)
            taken = [await _again(app, f"{kind}-{number}") for number in range(TRIALS)]
        found[kind] = {"median": round(median(taken) * 1000, 1), "most": round(max(taken) * 1000, 1)}
    return found


def _app(url: str, settings: LeaseSettings) -> App:
    config = Configuration(leases=settings, upkeep=UpkeepSettings(snapshot_every=0))
    return App(url, workflows=[one, waiting], config=config)


async def _again(app: App, worker: str) -> float:
    """Seconds until a worker that comes back has finished the runs it had."""
    LEAVE.clear()
    BEGAN.clear()
    async with app.worker(id=worker, concurrency=RUNS_EACH) as first:
        starts = [app.start(waiting(1), id=f"{worker}-{each}") for each in range(RUNS_EACH)]
        runs = await asyncio.gather(*starts)
        while len(BEGAN) < RUNS_EACH:  # noqa: ASYNC110 - steps of a worker beside us
            await asyncio.sleep(0.01)
        await crash(first)
    LEAVE.set()
    began = time.perf_counter()
    async with app.worker(id=worker, concurrency=RUNS_EACH):
        await asyncio.gather(*(run.result() for run in runs))
        return time.perf_counter() - began


async def _held_by_many(url: str) -> list[list[str]]:
    """The runs of each worker: claimed by instances that have gone without a word."""
    runs = [[f"order-{number}-{each}" for each in range(RUNS_EACH)] for number in range(WORKERS)]
    app = _app(url, LeaseSettings(ttl=TTL))
    async with app:
        async with app.worker(id="template") as worker:
            row = worker.row
        store = (await app.client()).store
        for number, part in enumerate(runs):
            await asyncio.gather(*(app.start(one(1), id=run) for run in part))
            gone = msgspec.structs.replace(row, worker=f"w{number}", instance=f"gone-{number}")
            await store.register(gone, TTL, takes_over="none")
            claims = await store.claim(ClaimRequest(worker=gone, limit=RUNS_EACH, max_claims=5, only=tuple(part)))
            assert len(claims.runs) == RUNS_EACH
    return runs


async def _granted(app: App, settings: LeaseSettings, runs: Sequence[Sequence[str]]) -> None:
    """What is held in the store is granted to the same workers, if there is a manager."""
    mark = await (await app.client()).store.mark("leases", 1)
    grants = await open_grants(settings, TTL, mark)
    if grants is not None:
        await grants.own(mark)
        for number, part in enumerate(runs):
            answers = await grants.acquire_many(part, f"w{number}", TTL)
            assert all(isinstance(answer, Grant) for answer in answers.values())
        await grants.close()
