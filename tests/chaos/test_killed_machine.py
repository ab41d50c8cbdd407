"""A machine killed inside every state, in real processes: what the ledger says afterwards is what the contract says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from tests.chaos.machine_server import DIRTY, ENDED, FAILED
from tests.support import warm
from tests.support.examples import count
from tests.support.postgres import new_schema, server_url

ROOT = Path(__file__).parents[2]
KILLED = -signal.SIGKILL
FORWARD = ["Reserve", "Route", "dhl", "Choose", "Pack0", "Pack1", "Pack2", "Pay", "Label", "Ship", "Notify"]
BACK = ["undo Pay", "undo Reserve"]
CRASHES = 3
STORES = ["file", "log", "app", "postgres log", "postgres app"]


class Server:
    """Processes of one machine over one kind of store."""

    def __init__(self, kind: str, folder: Path, process: subprocess.Popen[str]) -> None:
        self._kind = kind.rsplit(maxsplit=1)[-1]
        self._where = f"sqlite:///{folder}/machine.db"
        if kind == "file":
            self._where = str(folder / "logs")
        elif kind.startswith("postgres"):
            self._where = server_url(new_schema())
        self._process = process
        self.ledger = folder / "ledger"
        self.ledger.touch()

    def go(self, run: str, *, crash: str = "", fail: str = "") -> int:
        """One process: begins the run or goes on with it; how it ended."""
        task = {
            "kind": self._kind,
            "where": self._where,
            "run": run,
            "ledger": str(self.ledger),
            "crash": crash,
            "fail": fail,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def effects(self, run: str) -> list[str]:
        """What the bodies of a run did, in order."""
        lines = [line.split("|") for line in self.ledger.read_text().splitlines()]
        return [what for name, what in lines if name == run]


@contextmanager
def serving(kind: str, folder: Path) -> Iterator[Server]:
    """A server that forks a process for each request."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    process = warm.Popen(
        [sys.executable, "-m", "tests.chaos.machine_server"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Server(kind, folder, process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()


def expected(point: str, crashes: int) -> Counter[str]:
    """How often each body runs if the run is killed that often at one point: there again each time, before it never.

    A router leaves no trace, so the state before it runs again with it.
    """
    counts = Counter(FORWARD)
    counts[point] += crashes
    if point == "Route":
        counts["Reserve"] += crashes
    return counts


@pytest.mark.slow
@pytest.mark.examples
@pytest.mark.timeout(400)  # some fifty processes, one after the other
@pytest.mark.spec("cano.Z1", "cano.Z2", "cano.Z8", "cano.Z9", "traps.A1", "traps.A3")
@pytest.mark.parametrize("kind", STORES)
def test_killed_in_every_state_three_times(kind: str, tmp_path: Path, rng: Random) -> None:
    """Promise: what was done before the point never runs again; the run ends; more crashes change nothing. (At every
    commit in some of the states on PostgreSQL, in the lab in all of them.)"""
    some = count(len(FORWARD), few=4 if kind.startswith("postgres") else len(FORWARD))
    with serving(kind, tmp_path) as server:
        for point in rng.sample(FORWARD, some):
            for _ in range(CRASHES):
                assert server.go(point, crash=point) == KILLED
            assert server.go(point) == ENDED
            found = Counter(server.effects(point))
            wanted = expected(point, CRASHES)
            if kind.endswith("app"):  # the router is pure, so a replay may call it as often as it likes
                assert found.pop("Route") >= wanted.pop("Route")
            assert found == wanted, point


@pytest.mark.slow
@pytest.mark.examples
@pytest.mark.timeout(400)  # some fifty processes, one after the other
@pytest.mark.spec("cano.Z6", "cano.Z7", "cano.S2", "cano.S3", "traps.A2")
@pytest.mark.parametrize("kind", STORES)
def test_a_later_failure_undoes_each_completed_state_exactly_once(kind: str, tmp_path: Path, rng: Random) -> None:
    """Promise: however often the run was killed before, in whichever state, and inside whichever compensation. (On
    PostgreSQL as above.)"""
    points = ["Reserve", "Route", "Pack1", "Pay", "Ship"]
    some = count(len(points), few=2 if kind.startswith("postgres") else len(points))
    with serving(kind, tmp_path) as server:
        for point in rng.sample(points, some):
            for _ in range(2):
                assert server.go(point, crash=point, fail="Notify") == KILLED
            assert server.go(point, fail="Notify") == FAILED
            assert server.effects(point)[-3:] == ["Notify", *BACK], point
            assert Counter(server.effects(point))["undo Pay"] == 1
        for point in BACK:
            run = f"in {point}"
            for _ in range(2):
                assert server.go(run, crash=point, fail="Notify") == KILLED
            assert server.go(run) == FAILED, "a rollback is never resumed forward"
            found = Counter(server.effects(run))
            assert found == Counter([*FORWARD, *BACK]) | Counter({"Route": found["Route"]}), run


@pytest.mark.slow
@pytest.mark.timeout(400)  # some fifty processes, one after the other
@pytest.mark.spec("cano.S4", "cano.S5")
@pytest.mark.parametrize("kind", ["file", "log"])
def test_a_dirty_rollback_is_finished_by_another_process(kind: str, tmp_path: Path) -> None:
    """Promise: what could not be undone is tried again by the next resume, and only that."""
    with serving(kind, tmp_path) as server:
        assert server.go("run", fail="Notify", crash="undo Pay") == KILLED
        assert server.go("run", fail="undo Pay") == DIRTY
        assert server.go("run") == FAILED
        effects = server.effects("run")
        assert effects[len(FORWARD) :] == ["undo Pay", "undo Reserve", "undo Pay"]
