"""A batch whose worker is killed twice, in real processes: every item right, nothing completed is run again."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from holdfast import App, Status
from holdfast.core import events as e
from holdfast.core.turn import decode_row
from tests.chaos.batch_process import item
from tests.support.postgres import new_schema, server_url

ROOT = Path(__file__).parents[2]
ITEMS, CONCURRENCY = 150, 20
DEADLINE = "100s"


def started(url: str, ledger: Path) -> subprocess.Popen[str]:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return subprocess.Popen(
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


async def killed(url: str, ledger: Path, bodies: int) -> None:
    """A worker that is killed when so many bodies have been started in all."""
    process = started(url, ledger)
    try:
        async with asyncio.timeout(60):
            while sum(entries(ledger).values()) < bodies:  # noqa: ASYNC110 a file is looked at
                await asyncio.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


async def completed(app: App, batch: str) -> set[tuple[str, str]]:
    """Steps of items whose completion is in the journal."""
    store = (await app.client()).store
    found: set[tuple[str, str]] = set()
    for number in range(ITEMS):
        for row in await store.history(f"{batch}/{number}"):
            found |= {(row.run, x.key) for x in decode_row(row).events if isinstance(x, e.StepCompleted)}
    return found


@pytest.mark.spec("stepflow.R10", "stepflow.M12")
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_batch_survives_two_kills_in_the_middle(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: all items are right, none is run twice, and no step runs again whose completion was recorded."""
    monkeypatch.setattr("holdfast.client.batches.CHUNK_ITEMS", 40)
    url = server_url(new_schema()) if kind == "postgres" else f"sqlite:///{tmp_path}/batch.db"
    ledger = tmp_path / "ledger"
    ledger.touch()
    app = App(url, workflows=[item])
    async with app:
        batch = await app.start_batch(item, range(ITEMS), concurrency=CONCURRENCY, id="b")
        recorded: list[tuple[set[tuple[str, str]], Counter[tuple[str, str]]]] = []
        for bodies in (ITEMS, 2 * ITEMS):
            await killed(url, ledger, bodies)
            recorded.append((await completed(app, "b"), entries(ledger)))
            assert await batch.status() is Status.RUNNING
        process = started(url, ledger)
        try:
            counts = await batch.result(DEADLINE)
            found = [(each.index, each.result) async for each in batch.items()]
        finally:
            process.terminate()
            process.communicate()
        assert counts.completed == ITEMS
        assert found == [(number, (number + 1) * 2 - 1) for number in range(ITEMS)]
        after = entries(ledger)
        for done, before in recorded:
            again = {key for key in done if after[key] != before[key]}
            assert not again, f"completed before a kill, and run again: {sorted(again)[:5]}"
        assert len(after) == 3 * ITEMS
        assert sum(after.values()) <= 3 * ITEMS + 2 * CONCURRENCY
