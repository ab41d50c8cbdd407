"""A batch whose worker is killed twice, in real processes: every item right, nothing completed is run again."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import App, Status
from holdfast.authoring.batch.batch_plan import Order
from holdfast.core import events as e
from holdfast.core.turn import decode_row
from holdfast.testing.conformance.world import settle
from tests.chaos.batch_process import item
from tests.support import warm
from tests.support.postgres import new_schema, server_url

ROOT = Path(__file__).parents[2]
ITEMS, CONCURRENCY, CHUNK = 150, 20, 40
DEADLINE = "100s"


def started(url: str, ledger: Path) -> subprocess.Popen[str]:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return warm.Popen(
        [sys.executable, "-m", "tests.chaos.batch_process", url, str(ledger)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        text=True,
    )


def entries(ledger: Path) -> Counter[tuple[str, str]]:
    """How often each body was started, by run and step."""
    lines = [line.split() for line in ledger.read_text().splitlines()]
    return Counter((run, name) for run, name, _ in lines)


def begun(ledger: Path) -> int:
    """How many bodies were started."""
    return ledger.read_bytes().count(b"\n")


async def killed(url: str, ledger: Path, bodies: int) -> None:
    """A worker that is killed when so many bodies have been started in all."""
    process = started(url, ledger)
    try:
        async with asyncio.timeout(100):
            while begun(ledger) < bodies:  # noqa: ASYNC110 a file is looked at
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"{begun(ledger)} of {bodies} bodies began, and no more") from None
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


async def completed(app: App, batch: str) -> set[tuple[str, str]]:
    """Steps of items whose completion is in the journal."""
    store = (await app.client()).store
    found: set[tuple[str, str]] = set()
    after = 0
    await settle(store, batch)
    while rows := await store.read_tree(batch, from_seq=after + 1):
        after = rows[-1].seq
        for row in rows:
            if row.run != batch:
                found |= {(row.run, x.key) for x in decode_row(row).events if isinstance(x, e.StepCompleted)}
    return found


class Records:
    """What was recorded when a worker was killed, and how often each body had begun by then."""

    def __init__(self, ledger: Path) -> None:
        self._ledger = ledger
        self._kills: list[tuple[set[tuple[str, str]], Counter[tuple[str, str]]]] = []

    async def take(self, app: App) -> None:
        """After a kill."""
        self._kills.append((await completed(app, "b"), entries(self._ledger)))

    def check(self, items: int, concurrency: int) -> None:
        """At the end: nothing that was recorded as completed began again, and only what was in flight began twice."""
        after = entries(self._ledger)
        for done, before in self._kills:
            again = {key for key in done if after[key] != before[key]}
            assert not again, f"completed before a kill, and run again: {sorted(again)[:5]}"
        assert len(after) == 3 * items
        assert sum(after.values()) <= 3 * items + len(self._kills) * concurrency


async def killed_twice(url: str, ledger: Path, items: int, concurrency: int, order: Order) -> tuple[float, int]:
    """A batch of items of three steps whose worker is killed in the middle, twice. Its items/s, without the kills, and
    the bytes of memory that the last worker had at most."""
    app, records = App(url, workflows=[item]), Records(ledger)
    async with app:
        batch = await app.start_batch(item, range(items), concurrency=concurrency, order=order, id="b")
        for bodies in (items, 2 * items):
            await killed(url, ledger, bodies)
            await records.take(app)
            assert await batch.status() is Status.RUNNING
        left, at = items - (await batch.counts()).done, time.monotonic()
        process = started(url, ledger)
        try:
            counts = await batch.result(DEADLINE)
            rate = left / (time.monotonic() - at)
            found = [(each.index, each.result) async for each in batch.items()]
        finally:
            process.terminate()
            peak, _ = process.communicate()
        assert counts.completed == items
        assert found == [(number, (number + 1) * 2 - 1) for number in range(items)]
    records.check(items, concurrency)
    return rate, int(peak)


def url_of(kind: str, folder: Path) -> str:
    return server_url(new_schema()) if kind == "postgres" else f"sqlite:///{folder}/batch.db"


@pytest.mark.spec("stepflow.R10", "stepflow.M12", "stepflow.X9")
@pytest.mark.parametrize("order", ["depth", "breadth"])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_batch_survives_two_kills_in_the_middle(
    kind: str, order: Order, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: all items are right, none is run twice, no step runs again whose completion was recorded; breadth-first
    no more items than have a place are behind when the first of a group does its second step."""
    monkeypatch.setattr("holdfast.authoring.batch.batch_inputs.CHUNK_ITEMS", CHUNK)
    ledger = tmp_path / "ledger"
    ledger.touch()
    await killed_twice(url_of(kind, tmp_path), ledger, ITEMS, CONCURRENCY, order)
    if order == "breadth":
        bodies = [(run, name) for run, name, _ in (line.split() for line in ledger.read_text().splitlines())]
        for first_of in range(0, ITEMS, CHUNK):
            group = {f"b/{number}" for number in range(first_of, min(first_of + CHUNK, ITEMS))}
            place = next(at for at, (run, name) in enumerate(bodies) if run in group and name == "second")
            assert len(group - {run for run, name in bodies[:place] if name == "first"}) < CONCURRENCY


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_large_batch_survives_two_kills(
    kind: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Promise: the same for thousands of items over many chunks, 100 at a time; the worker holds those of a chunk or
    two. Ten thousand with HOLDFAST_BATCH_ITEMS=10000."""
    items = int(os.environ.get("HOLDFAST_BATCH_ITEMS", "2000"))
    ledger = tmp_path / "ledger"
    ledger.touch()
    rate, peak = await killed_twice(url_of(kind, tmp_path), ledger, items, 100, "depth")
    figure = f"{kind}: {items:,} items of three steps, two kills: {rate:.0f} items/s, {peak / 2**20:.0f} MB at most"
    record_property("figure", figure)
    assert peak < 200 * 2**20
