"""The examples about machines do what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from examples.file_log import FileLog
from holdfast import LogRow
from holdfast.testing.conformance import MachineLogSuite

ROOT = Path(__file__).parents[2]


@pytest.mark.spec("cano.Z10", "cano.F13")
def test_the_recovery_story_prints_its_five_rows() -> None:
    """Promise: run raises, resume finishes, and the kept log has five entries."""
    done = subprocess.run(
        [sys.executable, "-m", "examples.machine_recovery"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "run failed: simulated crash",
        "resumed to Done()",
        "#0 entry Start start",
        "#1 entry Process process",
        "#2 entry Process process",
        "#3 entry Finalize finalize",
        "#4 entry Done",
    ]


class TestFileLog(MachineLogSuite):
    """The full store of the examples owes what every three-method store owes."""

    def open(self, folder: Path) -> FileLog:
        return FileLog(folder / "logs")


@pytest.mark.spec("cano.K7", "cano.K8")
def test_a_line_that_a_crash_cut_short_is_dropped(tmp_path: Path) -> None:
    """Promise: it was never acknowledged; the next row takes its place."""
    log = FileLog(tmp_path)
    row = LogRow(0, "entry", "Start", "start", 1, "", b"{}")
    log.append("run", row)
    [path] = tmp_path.glob("*.jsonl")
    with path.open("ab") as file:
        file.write(b'{"sequence":1,"kind":"ent')
    assert log.load("run") == [row]
    second = LogRow(1, "entry", "Done", "", 2, "", b"{}")
    log.append("run", second)
    assert log.load("run") == [row, second]
