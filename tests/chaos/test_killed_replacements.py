"""Processes that replace runs without end, killed: one run per value is begun at a time, and the newest is left."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from holdfast import App, RunCancelled
from tests.chaos import replacing
from tests.chaos.replacing import go, watch
from tests.chaos.stage import until
from tests.support.postgres import clean_url

ROOT = Path(__file__).parents[2]
KILLS = 2


def has_lines(ledger: Path, wanted: int) -> bool:
    return len(ledger.read_text().splitlines()) >= wanted


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_one_run_of_a_value_is_begun_at_a_time(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: whatever is killed between, a run begins only after the clean-up of every run that began before it, and
    of all of them the one that was started last is open."""
    url = f"sqlite:///{tmp_path / 'store.db'}" if kind == "sqlite" else clean_url()
    ledger = tmp_path / "ledger.txt"
    ledger.touch()
    monkeypatch.setenv(replacing.LEDGER, str(ledger))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    async with App(url, workflows=[watch]) as app:
        for count in range(KILLS):
            wanted = len(ledger.read_text().splitlines()) + 7 + count
            command = [sys.executable, "-m", "tests.chaos.replacing", url]
            process = subprocess.Popen(command, cwd=ROOT, env=environment)  # noqa: ASYNC220 it takes no time
            try:
                await until(partial(has_lines, ledger, wanted), "runs replace others")
            finally:
                process.kill()
                process.wait()
        last = await app.start(watch(-1), unique="u", if_exists="replace")
        async with app.worker(id="w1", poll="100ms", ttl="2s"):
            await last.signal(go, True)
            async with asyncio.timeout(60):
                assert await last.result() == -1
            others = [view.id async for view in app.runs() if view.id != last.id]
            for run in others:  # one that had not begun may still have its cancel to read
                with pytest.raises(RunCancelled):
                    await (await app.get(run)).result(timeout="60s")
    assert len(others) > KILLS
    begun, ended = list[str](), set[str]()
    for line in ledger.read_text().splitlines():
        word, run = line.split()
        if word == "ends":
            ended.add(run)
        else:
            assert ended.issuperset(one for one in begun if one != run), f"{run} began too early"
            begun.append(run)
    assert last.id in begun
