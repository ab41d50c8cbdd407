"""A worker killed before and after every commit: the run ends the same, and nothing completed runs again."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from tests.chaos import orders
from tests.chaos.stage import DEADLINE, Stage, end
from tests.support.postgres import clean_url

MOST = 40
"""More commits than the workflow ever takes: the sweep ends when a worker outlives its fuse."""


async def finish(stage: Stage) -> list[str]:
    """A second worker, of the same configured id, takes over at once and finishes."""
    process = stage.worker("w1")
    try:
        return await stage.result()
    finally:
        await asyncio.to_thread(end, process)


async def kill_at(folder: Path, when: str, at: int, url: str = "") -> bool:
    """One crash; False if the workflow ended before its n-th commit."""
    stage = Stage(folder, url)
    await stage.start()
    process = stage.worker("w1", when, str(at))
    waiting = asyncio.create_task(asyncio.to_thread(process.wait, DEADLINE))
    result = asyncio.create_task(stage.result())
    done, _ = await asyncio.wait([waiting, result], return_when=asyncio.FIRST_COMPLETED)
    if waiting not in done:
        await asyncio.to_thread(end, process)
        await waiting
        assert result.result() == orders.EXPECTED
        return False
    assert process.returncode == -signal.SIGKILL, process.stderr and process.stderr.read()
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stderr.close()
    if result not in done:
        result.cancel()
    completed = await stage.completed()
    unrecorded = [entry for entry in stage.attempts() if entry[2] > await stage.recorded(entry[0], entry[1])]
    assert not unrecorded, f"killed {when} commit {at}: bodies ran before their attempt was recorded: {unrecorded}"
    before = stage.starts()
    assert await finish(stage) == orders.EXPECTED, f"killed {when} commit {at}"
    after = stage.starts()
    again = {step for step in completed if after[step] != before[step]}
    assert not again, f"killed {when} commit {at}: completed steps ran again: {again}"
    await stage.check()
    return True


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("parity", [0, 1])
@pytest.mark.timeout(600)
async def test_a_kill_at_every_commit_changes_nothing(tmp_path: Path, when: str, parity: int) -> None:
    """Promise: SIGKILL before or after any commit leaves a run that ends with the same result, and no step whose
    completion was committed is executed again. Two halves, so that both cores have work."""
    killed = 0
    for at in range(1 + parity, MOST, 2):
        if not await kill_at(tmp_path / str(at), when, at):
            break
        killed += 1
    else:
        pytest.fail(f"the workflow took more than {MOST} commits")
    assert killed >= 5, "the workflow must take commits, or the sweep shows nothing"


@pytest.mark.parametrize(("when", "at"), [("before", 2), ("after", 3), ("after", 5)])
async def test_a_kill_on_postgres_changes_nothing(tmp_path: Path, when: str, at: int) -> None:
    """Promise: the same holds where application and workers meet in a server."""
    assert await kill_at(tmp_path / "one", when, at, clean_url())
