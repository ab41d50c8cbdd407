"""A worker killed at every boundary of a transaction: what the step writes is there exactly once."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast import App
from tests.chaos import noting
from tests.chaos.stage import DEADLINE, ROOT, end
from tests.support import warm
from tests.support.postgres import clean_url

POINTS = {"body": 2, "before": 2, "between": 2, "after": 1}
"""Where the worker is killed, and the attempt that is then kept."""


async def written(app: App) -> list[str]:
    """What is in the table, which is dropped."""
    async with app.connection() as connection:
        cursor: Any = connection.execute(noting.SELECT)
        rows = await (await cursor).fetchall() if hasattr(cursor, "__await__") else list(cursor)
        dropped = connection.execute(noting.DROP)
        if hasattr(dropped, "__await__"):
            await dropped
        return [text for (text,) in rows]


async def make_table(app: App) -> None:
    async with app.connection() as connection:
        made = connection.execute(noting.MAKE)
        if hasattr(made, "__await__"):
            await made


def worker(url: str, point: str, number: int) -> subprocess.Popen[str]:
    """A worker process with a fuse."""
    return warm.Popen(
        [sys.executable, "-m", "tests.chaos.noting", url, point, str(number)],
        cwd=ROOT,
        env={
            **os.environ,
            noting.OWNER: str(os.getpid()),
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_kill_at_any_boundary_writes_once(tmp_path: Path, kind: str, point: str, number: int) -> None:
    """Promise: SIGKILL in the body, before the turn, between the turn and COMMIT, or after COMMIT: another worker
    finishes the run, every row is there once, and a step whose transaction was committed did not run again."""
    url = f"sqlite:///{tmp_path / 'noted.db'}" if kind == "sqlite" else clean_url()
    app = App(url, workflows=[noting.noting])
    async with app:
        await make_table(app)
        run = await app.start(noting.noting(), id="noted")
        process = worker(url, point, number)
        try:
            assert await asyncio.to_thread(process.wait, DEADLINE) == -signal.SIGKILL
        finally:
            log = end(process)
        async with app.worker(id="w1", poll="100ms"):
            assert await run.result(timeout=DEADLINE) == noting.EXPECTED, log
        rows = await written(app)
    killed = "abc"[number - 1]
    assert [row.split()[0] for row in rows] == ["a", "b", "c"], f"killed {point} {number}: {rows}"
    assert f"{killed} {POINTS[point]}" in rows
