"""Starting the programs of these tests, and listening to them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support import warm

PROGRAMS = Path(__file__).with_name("programs.py")
ROOT = PROGRAMS.parents[4]


class Program:
    """A running program: its lines, and ways to end it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def line(self) -> str:
        """The next line; empty at the end."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def rest(self) -> list[str]:
        """All further lines, once it has ended."""
        assert self.process.stdout is not None
        lines = self.process.stdout.read().splitlines()
        assert self.process.wait() == 0
        return lines

    def go(self) -> None:
        """Lets a waiting program go on."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self) -> list[str]:
        """SIGKILL; what it had said and nobody had read, without a last line that was cut off."""
        self.process.kill()
        assert self.process.stdout is not None
        left = self.process.stdout.read()
        self.process.wait()
        return left.rpartition("\n")[0].splitlines()


@contextmanager
def started(name: str, path: Path, *arguments: str) -> Iterator[Program]:
    """Runs a program as a process of its own; it is dead afterwards."""
    with warm.Popen(
        [sys.executable, str(PROGRAMS), name, str(path), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
    ) as process:
        try:
            yield Program(process)
        finally:
            process.kill()
