"""Runs one program and counts the processor time of everything it started, orphans included.

    python supervisor.py FILE PROGRAM [ARGUMENTS]

FILE gets one line of JSON: the exit code, the seconds and the processor seconds. A process whose parent ends first is
adopted by the supervisor, which waits for it, so that no server or stray worker is left out of the sum. What is still
there a minute after the program's end is killed and counted as `left`.

Only the standard library is imported: a supervisor must cost nothing beside what it measures.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

PR_SET_CHILD_SUBREAPER = 36
PATIENCE = 60.0


def adopt_orphans() -> None:
    """Makes this process the parent of descendants whose own parent has ended. Only Linux can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> list[int]:
    """The processes that have this one as their parent now."""
    found: list[int] = []
    for task in Path("/proc/self/task").glob("*/children"):
        found += [int(word) for word in task.read_text(encoding="ascii").split()]
    return found


def reap(until: float) -> int:
    """Waits for adopted processes; kills those that are still there at `until` and says how many they were."""
    left = 0
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return left
        if pid == 0 and time.monotonic() > until:
            for stray in children():
                left += 1
                os.kill(stray, signal.SIGKILL)
            until = time.monotonic() + PATIENCE
        elif pid == 0:
            select.select([], [], [], 0.02)


def main(target: Path, argv: list[str]) -> int:
    adopt_orphans()
    started = time.monotonic()
    process = subprocess.Popen(argv)

    def forward(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    signal.signal(signal.SIGTERM, forward)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends Ctrl-C to the program itself
    code = process.wait()
    seconds = time.monotonic() - started
    left = reap(time.monotonic() + PATIENCE)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    told = {"code": code, "seconds": seconds, "processor": used.ru_utime + used.ru_stime, "left": left}
    target.write_text(json.dumps(told), encoding="utf-8")
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
