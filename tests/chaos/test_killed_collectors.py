"""Processes that collect items into runs, killed: every item that was accepted is in one run, once."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from holdfast import App
from tests.chaos import collecting
from tests.chaos.collecting import load
from tests.chaos.stage import until
from tests.support.postgres import clean_url

ROOT = Path(__file__).parents[2]
KILLS = 2


def has_loaded(ledger: Path, wanted: int) -> bool:
    return ledger.read_text().count("loaded") >= wanted


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_no_item_is_lost_or_loaded_in_two_runs(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: what was accepted before SIGKILL is loaded by the run that accepted it, and no run has too many."""
    url = f"sqlite:///{tmp_path / 'store.db'}" if kind == "sqlite" else clean_url()
    ledger = tmp_path / "ledger.txt"
    ledger.touch()
    monkeypatch.setenv(collecting.LEDGER, str(ledger))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    async with App(url, workflows=[load]) as app:
        for count in range(1, KILLS + 1):
            command = [sys.executable, "-m", "tests.chaos.collecting", url]
            process = subprocess.Popen(command, cwd=ROOT, env=environment)  # noqa: ASYNC220 it takes no time
            try:
                await until(partial(has_loaded, ledger, 8 * count), "runs are collected and loaded")
            finally:
                process.kill()
                process.wait()
        async with app.worker(id="w1", poll="50ms", ttl="2s"), asyncio.timeout(60):
            runs = [await app.get(view.id) async for view in app.runs()]
            sizes = [await run.result() for run in runs]
    assert max(sizes) <= 7
    given, loaded = dict[str, str](), dict[str, set[str]]()
    for line in ledger.read_text().splitlines():
        word, run, *numbers = line.split()
        for number in numbers:
            if word == "given":
                given[number] = run
            else:
                loaded.setdefault(number, set()).add(run)
    assert len(given) > 8 * KILLS
    assert {number: {run} for number, run in given.items()} == {number: loaded.get(number) for number in given}
    assert Counter(len(found) for found in loaded.values()).keys() == {1}
