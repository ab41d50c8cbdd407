"""Facts about a process, and worker processes that can be started, waited for and killed."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[1]

BLOCK = "HOLDFAST_BENCH_BLOCK"
"""Set in the environment of a worker whose gated steps never end."""


class Gate:
    """What the gated step of this process saw."""

    entered = 0
    ended = 0
    reached_at = 0.0
    body_entered_at = 0.0


def resident_bytes() -> int:
    """Memory of this process now."""
    status = _status("VmRSS")
    return status if status is not None else peak_bytes()


def peak_bytes() -> int:
    """The most memory this process ever had. Linux hands `ru_maxrss` down from the parent, hence /proc where it is."""
    status = _status("VmHWM")
    return status if status is not None else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _status(field: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = [line for line in lines if line.startswith(field + ":")]
    return int(found[0].split()[1]) * 1024 if found else None


class Child:
    """A module of this package run as a process that speaks JSON lines. It ends when its standard input does."""

    def __init__(self, module: str, *arguments: str, blocks: bool = False) -> None:
        path = os.pathsep.join(x for x in (str(ROOT), os.environ.get("PYTHONPATH", "")) if x)
        environment = {**os.environ, "PYTHONPATH": path}
        environment.pop(BLOCK, None)
        if blocks:
            environment[BLOCK] = "1"
        self.launched_at = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"benchmarks.{module}", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=environment,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def line(self) -> dict[str, Any]:
        """The next line it says. Blocks."""
        assert self._process.stdout is not None
        text = self._process.stdout.readline()
        if not text:
            raise RuntimeError(f"a process of the benchmark ended early, with {self._process.wait()}")
        said: dict[str, Any] = json.loads(text)
        return said

    def kill(self) -> float:
        """SIGKILL; the moment it was sent."""
        at = time.monotonic()
        self._process.kill()
        self._process.wait()
        return at

    def stop(self) -> None:
        """Lets it end in order, and ends it if it does not."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def say(**facts: Any) -> None:
    """One line to the process that started this one."""
    print(json.dumps(facts), flush=True)
