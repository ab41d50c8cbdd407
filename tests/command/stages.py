"""Programs run side by side in lanes, each measured with everything it starts.

A lane runs its stages one after another; lanes run at the same time. One stage may be `live`: its output goes straight
to the terminal. The others say one line when they end, and what a failed one printed is shown at the end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUPERVISOR = Path(__file__).with_name("supervisor.py")
SERVER_TIMES = "HOLDFAST_SERVER_TIMES"
"""The variable that names the file to which test servers add their processor seconds, a line each."""
NO_SERVERS = "HOLDFAST_NO_TEST_SERVERS"
"""The variable with which a test that asks for a server fails: `--quick` starts none."""


@dataclass(frozen=True)
class Stage:
    """One program. `nice`: how far it stands back behind the others when the processor is busy."""

    name: str
    argv: Sequence[str | Path]
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    nice: int = 0
    is_live: bool = False


@dataclass(frozen=True)
class Outcome:
    """What became of a stage. `servers` is the part of `processor` that test servers used."""

    name: str
    code: int
    seconds: float
    processor: float
    servers: float = 0.0
    left: int = 0
    output: str = ""

    @property
    def is_ok(self) -> bool:
        return self.code == 0 and not self.left

    @property
    def verdict(self) -> str:
        if self.code:
            return f"FAILED (exit {self.code})"
        return f"FAILED ({self.left} processes left behind)" if self.left else "ok"


def workers() -> list[str]:
    """How pytest spreads the suite: over a worker more than there are cores, since many tests wait for processes and
    servers, and a few tests at a time, since slow ones come first. Each worker costs the time to collect all tests."""
    return ["-n", str(1 + max(2, os.cpu_count() or 2)), "--maxschedchunk", "4"]


def run_lanes(lanes: Sequence[Sequence[Stage]]) -> list[Outcome]:
    """Runs all stages; gives their outcomes in the order in which the lanes name them."""
    outcomes: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="holdfast-stages-") as folder:

        def drive(lane: Sequence[Stage]) -> None:
            for stage in lane:
                outcomes[stage.name] = outcome = _run(stage, Path(folder))
                figures = f"{outcome.seconds:.1f} s, {outcome.processor:.1f} processor seconds"
                print(f"\n== {stage.name}: {outcome.verdict} after {figures}", flush=True)  # noqa: T201

        threads = [threading.Thread(target=drive, args=(lane,)) for lane in lanes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return [outcomes[stage.name] for lane in lanes for stage in lane if stage.name in outcomes]


def _run(stage: Stage, folder: Path) -> Outcome:
    place = folder / stage.name.replace(" ", "-").replace("/", "-")
    told, printed, servers = (place.with_suffix(suffix) for suffix in (".json", ".out", ".servers"))
    servers.touch()
    environment = {**os.environ, **stage.env, SERVER_TIMES: str(servers)}
    command = [sys.executable, "-S", SUPERVISOR, told, *stage.argv]
    if stage.nice:
        command = ["nice", "-n", str(stage.nice), *command]
    with printed.open("wb") as file:
        target = None if stage.is_live else file
        process = subprocess.Popen(
            [str(word) for word in command],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=target,
            stderr=target if stage.is_live else subprocess.STDOUT,
        )
        code = process.wait()
    figures = json.loads(told.read_text(encoding="utf-8")) if told.exists() else {}
    return Outcome(
        stage.name,
        code,
        figures.get("seconds", 0.0),
        figures.get("processor", 0.0),
        sum(float(line) for line in servers.read_text(encoding="ascii").split()),
        figures.get("left", 0),
        printed.read_text(encoding="utf-8", errors="replace"),
    )
