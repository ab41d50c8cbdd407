"""A worker killed at every commit of a flow: the run ends as it began, and nothing completed runs again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast import App
from tests.chaos.flow_server import ENDED, EXPECTED, FIRST
from tests.chaos.stage import ROOT, Stage
from tests.support import warm
from tests.support.postgres import clean_url

MOST = 40
"""More commits than the flow ever takes: the sweep ends when a worker outlives its fuse."""


@contextmanager
def serving() -> Iterator[subprocess.Popen[str]]:
    """A server that forks a process for each request."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    process = warm.Popen(
        [sys.executable, "-m", "tests.chaos.flow_server"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(60)


def go(
    server: subprocess.Popen[str], stage: Stage, when: str = "never", at: int = 0, *, is_changed: bool = False
) -> int:
    """One process that works on the run; how it ended."""
    assert server.stdin is not None
    assert server.stdout is not None
    task = {"url": stage.url, "run": "flow", "ledger": str(stage.ledger), "when": when, "at": at}
    server.stdin.write(json.dumps({**task, "is_changed": is_changed}) + "\n")
    server.stdin.flush()
    return int(server.stdout.readline())


async def begin(stage: Stage) -> None:
    """Starts the run, with nobody there to advance it."""
    async with App(stage.url, workflows=[FIRST]) as app:
        await app.start(FIRST({"left": "a", "right": "b"}), id="flow")


async def kill_at(server: subprocess.Popen[str], folder: Path, when: str, at: int, url: str) -> bool:
    """One crash; False if the flow ended before its n-th commit. The file is edited before another goes on."""
    stage = Stage(folder, url)
    await begin(stage)
    code = await asyncio.to_thread(go, server, stage, when, at)
    if code != -signal.SIGKILL:
        assert code == ENDED
        return False
    completed, before = await stage.completed(), stage.starts()
    unrecorded = [entry for entry in stage.attempts() if entry[2] > await stage.recorded(entry[0], entry[1])]
    assert not unrecorded, f"killed {when} commit {at}: bodies ran before their attempt was recorded: {unrecorded}"
    code = await asyncio.to_thread(lambda: go(server, stage, is_changed=True))
    assert code == ENDED, f"killed {when} commit {at}: the run did not end with {EXPECTED}"
    again = {step for step in completed if stage.starts()[step] != before[step]}
    assert not again, f"killed {when} commit {at}: completed steps ran again: {again}"
    is_numbered = len(stage.attempts()) == sum(stage.starts().values())
    assert is_numbered, f"killed {when} commit {at}: two bodies had one attempt number: {stage.starts()}"
    ran = {key for _, key in stage.starts()}
    assert ran == {"left", "right", "packed.0", "packed.1", "packed.2", "one", "two", "sum"}
    assert {run for run, _ in stage.starts()} == {"flow", "flow/inner"}, "the sub-flow is one run, however often asked"
    await stage.check()
    return True


@pytest.mark.spec("stepflow.R10", "stepflow.R11", "stepflow.R13", "stepflow.R14", "stepflow.R21")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("share", [1, 2, 3])
@pytest.mark.timeout(300)
async def test_a_kill_at_every_commit_of_a_flow_changes_nothing(
    tmp_path: Path, when: str, kind: str, share: int
) -> None:
    """Promise: killed before or after any commit, the run ends as its first definition says though the file was edited,
    the sub-flow is one run, no step whose completion was committed runs again, and one that does has the next number.
    In shares, so that none is long."""
    killed = 0
    with serving() as server:
        for at in range(share, MOST, 3):
            url = clean_url() if kind == "postgres" else ""
            if not await kill_at(server, tmp_path / str(at), when, at, url):
                break
            killed += 1
        else:
            pytest.fail(f"the flow took more than {MOST} commits")
    assert killed >= 2, "the flow must take commits, or the sweep shows nothing"
