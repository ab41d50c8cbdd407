"""A worker killed while a step streams: readers in another process lose no part and see none twice."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import App, Part
from tests.chaos.streaming_process import PARTS, counting, tokens
from tests.support.postgres import clean_url

ROOT = Path(__file__).parents[2]
DEADLINE = 90.0


def worker(url: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-m", "tests.chaos.streaming_process", url]
    return subprocess.Popen(command, cwd=ROOT, env=environment)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_killed_worker_loses_and_doubles_no_part(tmp_path: Path, kind: str) -> None:
    """Promise: two SIGKILLs in the middle of a stream. A live reader sees dense offsets; each attempt is a beginning of
    the whole, and the completed one is all of it."""
    url = clean_url() if kind == "postgres" else f"sqlite:///{tmp_path / 's.db'}"
    app = App(url, workflows=[counting])
    process = worker(url)
    kills = 2
    try:
        async with app, asyncio.timeout(DEADLINE):
            run = await app.start(counting(), id="r")
            heard: list[Part[int]] = []
            async for part in run.read(tokens):
                heard.append(part)
                is_midway = part.value == PARTS // 3 and part.step
                if is_midway and kills:
                    kills -= 1
                    process.kill()
                    await asyncio.to_thread(process.wait)
                    process = worker(url)
            assert await run.result() == PARTS
            kept = [part.value async for part in run.read(tokens, only="completed")]
    finally:
        process.kill()
        process.wait()
        await app.close()
    assert kills == 0
    assert [part.offset for part in heard] == list(range(len(heard)))
    assert kept == [-1, *range(PARTS), -2]
    attempts: dict[int, list[int]] = {}
    for part in heard:
        if part.step:
            attempts.setdefault(part.attempt, []).append(part.value)
    assert len(attempts) == 3
    assert all(values == list(range(len(values))) for values in attempts.values())
