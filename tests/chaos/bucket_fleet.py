"""Workers whose payloads are in S3, killed all the time; and the oracle over store and bucket.

Every payload is written and read while workers die, many of them between upload and commit. Then nothing is missing,
and a sweep leaves exactly what runs refer to; when the runs go, it leaves nothing.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from holdfast import App
from holdfast.adapters.blobs.housed_store import UNHEARD, with_home
from holdfast.adapters.blobs.label import LABEL
from holdfast.adapters.postgres import open_postgres
from holdfast.adapters.s3 import S3Home, parse_s3_address
from holdfast.adapters.sqlite.store import open_sqlite
from holdfast.adapters.system.clock import SystemClock
from holdfast.client.verification import verify_run
from holdfast.ports.runs import Filter
from holdfast.ports.store import Store
from holdfast.ports.upkeep import KeepsFiles
from holdfast.upkeep.sweep import sweep
from tests.chaos.bucket_process import bucket_app, digest, payload, stored
from tests.support import s3
from tests.support.warm import Popen

LATER = UNHEARD + timedelta(minutes=1)
"""When everything that was stored is old enough to be collected."""


ATTEMPTS = 50
"""More than any step has."""


class LaterClock(SystemClock):
    """The host's clock, hours ahead: for the store of a sweep, so that nobody has to wait for the grace."""

    hours = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self.hours


@dataclass
class Found:
    """What a season came to."""

    kills: int = 0
    between: int = 0
    """Kills between upload and commit."""
    left: int = 0
    """Objects in the bucket that the store knew nothing of when all runs had ended."""
    superseded: int = 0
    """Objects of a blob that was stored again."""


class BucketFleet:
    """Workers in processes on one store and one bucket."""

    def __init__(self, folder: Path, url: str, rng: random.Random, *, every: int, workers: int = 2) -> None:
        self.folder = folder
        self.url = url
        self.blobs = s3.new_prefix()
        self.rng = rng
        self.every = every
        self.ledger = folder / "ledger"
        self.ledger.touch()
        self.found = Found()
        self._many = workers
        self._workers: list[Popen] = []

    def _start(self) -> None:
        words = [self.url, self.blobs, str(self.ledger), str(self.every)]
        with (self.folder / "workers.log").open("ab") as log:
            command = [sys.executable, "-m", "tests.chaos.bucket_process", *words]
            self._workers.append(Popen(command, env={**os.environ, **s3.ENVIRONMENT}, stdout=log, stderr=log))

    def _replace_the_dead(self) -> None:
        alive = [worker for worker in self._workers if worker.poll() is None]
        self.found.kills += len(self._workers) - len(alive)
        self._workers = alive
        while len(self._workers) < self._many:
            self._start()

    def stop(self) -> None:
        for worker in self._workers:
            with suppress(ProcessLookupError):
                worker.send_signal(signal.SIGKILL)
            worker.wait(30)

    async def play(self, sizes: Sequence[int], each: int) -> None:
        """A run for each payload, while workers die: one at random after every `each` runs that end, so that there is
        progress on any machine, and more by themselves. A run that lost its worker too often is resumed. Killing ends
        when three quarters of the runs have, so that all can."""
        app, last = bucket_app(self.url, self.blobs), len(sizes)
        async with app:
            for number, size in enumerate(sizes):
                await app.start(stored(number, size), id=f"p-{number}")
            while (open_runs := sum((await app.count(status=["pending", "running", "paused"])).values())) > 0:
                self._replace_the_dead()
                if open_runs <= len(sizes) // 4:
                    self.every = 0
                elif last - open_runs >= each:
                    last = open_runs
                    self.rng.choice(self._workers).send_signal(signal.SIGKILL)
                await asyncio.sleep(self.rng.uniform(0.1, 0.5))
                async for view in app.runs(status="paused"):
                    await (await app.get(view.id)).resume()


async def check(fleet: BucketFleet, sizes: Sequence[int]) -> Found:
    """The oracle. Workers are gone."""
    found = fleet.found
    found.between = len(fleet.ledger.read_text().splitlines())
    clock = LaterClock()
    inner = await _opened(fleet.url, clock)
    home = S3Home(parse_s3_address(fleet.blobs))
    store = with_home(inner, home)
    try:
        await home.open(await inner.mark("folder"))
        names = [key.partition("/")[0] for key in await _keys(fleet.blobs)]
        known = await inner.known_blobs(sorted(set(names)))
        found.left = len([name for name in names if name not in known])
        found.superseded = len(names) - found.left - len(known)
        clock.hours = LATER
        await _sweep(store, None)
        names = [key.partition("/")[0] for key in await _keys(fleet.blobs)]
        assert sorted(names) == sorted(known), "a sweep leaves one object of each blob that the store knows"
        app = bucket_app(fleet.url, fleet.blobs)
        async with app:
            await _check_results(app, sizes)
        clock.hours = LATER * 3
        await _sweep(store, timedelta(0))
        clock.hours = LATER * 6
        await _sweep(store, timedelta(0))
        assert await _keys(fleet.blobs) == [], "without runs nothing is left"
    finally:
        await store.close()
    return found


async def _check_results(app: App, sizes: Sequence[int]) -> None:
    """Every run has its result, and every payload of its journal is in the bucket, whole."""
    store = (await app.client()).store
    for number, size in enumerate(sizes):
        run = await app.get(f"p-{number}", stored)
        found = await run.result("60s")
        assert any(found == digest(payload(number, attempt, size)) for attempt in range(1, ATTEMPTS)), run.id
    after = ""
    while True:
        page = await store.list(Filter(), after=after, limit=100)
        for row in page.runs:
            assert (await verify_run(store, row)).problem == "", row.id
        after = page.next
        if not after:
            return


async def _opened(url: str, clock: SystemClock) -> Store:
    return await (open_sqlite if url.startswith("sqlite") else open_postgres)(url, clock=clock)


async def _sweep(store: Store, keep: timedelta | None) -> None:
    assert isinstance(store, KeepsFiles)
    await sweep(store, keep, timedelta(0))


async def _keys(blobs: str) -> list[str]:
    """Objects in the bucket, without the label of the home."""
    pages = [page async for page in s3.objects_below(blobs.partition("?")[0]).list()]
    return sorted(found["path"] for page in pages for found in page if found["path"] != LABEL)
