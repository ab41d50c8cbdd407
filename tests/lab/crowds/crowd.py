"""A crowd of processes on one SQLite file, and what each of them got."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import apsw
import msgspec

from tests.lab.crowds.member import TABLE, Share

ROOT = Path(__file__).resolve().parents[3]


class Outcome(msgspec.Struct, frozen=True):
    """What a crowd did with one file."""

    shares: Sequence[Share]
    seconds: float

    @property
    def least(self) -> float:
        """What the process with the fewest commits got, of its fair share."""
        commits = [share.commits for share in self.shares]
        return min(commits) * len(commits) / sum(commits)

    @property
    def asks(self) -> float:
        """How often the file was asked for, by all of them, for one commit."""
        return sum(share.asks for share in self.shares) / sum(share.commits for share in self.shares)

    @property
    def refused(self) -> int:
        """Writes that were given up because others wrote all the time."""
        return sum(share.refused for share in self.shares)

    @property
    def processor(self) -> float:
        """Processor seconds of all of them, for a thousand commits."""
        return 1000 * sum(share.processor for share in self.shares) / sum(share.commits for share in self.shares)

    @property
    def longest(self) -> float:
        """The longest that one of them waited for a commit, in seconds."""
        return max(share.longest for share in self.shares)


def crowd(path: Path, processes: int, total: int) -> Outcome:
    """Lets that many processes write `total` rows to a new file, each as many as it gets to."""
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")  # pyright: ignore[reportUnknownMemberType]
    connection.execute(TABLE)  # pyright: ignore[reportUnknownMemberType]
    connection.close()
    command = [sys.executable, "-m", "tests.lab.crowds.member", str(path)]
    members = [
        subprocess.Popen(
            [*command, str(number), str(total)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        for number in range(processes)
    ]
    try:
        for member in members:
            assert member.stdout is not None
            assert member.stdout.readline() == "ready\n"
        began_at = time.monotonic()
        for member in members:
            assert member.stdin is not None
            member.stdin.write("go\n")
            member.stdin.flush()
        said = [member.communicate()[0] for member in members]
        return Outcome([msgspec.json.decode(each, type=Share) for each in said], time.monotonic() - began_at)
    finally:
        for member in members:
            member.kill()
            member.wait()
