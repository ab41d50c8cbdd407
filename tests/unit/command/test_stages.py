"""Stages run side by side, and everything they start is counted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import supervisor
from tests.command.stages import Stage, run_lanes
from tests.support import warm

BUSY = "import time\nwhile time.process_time() < {seconds}: pass"
ORPHAN = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", {busy!r}], start_new_session=True)
"""


def test_an_orphan_is_waited_for_and_counted(tmp_path: Path) -> None:
    """Contract: a process whose parent has ended, in a session of its own, is still part of the sum."""
    code = ORPHAN.format(busy=BUSY.format(seconds=0.5))
    target = tmp_path / "told.json"
    command = [sys.executable, supervisor.__file__, str(target), sys.executable, "-c", code]
    assert subprocess.run(command, check=False).returncode == 0
    told = json.loads(target.read_text())
    assert told["code"] == 0
    assert told["left"] == 0
    assert told["processor"] >= 0.5


def test_what_does_not_end_is_killed_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: a process that outlives its stage is ended, and the stage knows."""
    program = tmp_path / "impatient.py"
    program.write_text(
        "import sys\nfrom pathlib import Path\nfrom tests.command import supervisor\n"
        "supervisor.PATIENCE = 0.1\nsys.exit(supervisor.main(Path(sys.argv[1]), sys.argv[2:]))\n"
    )
    target = tmp_path / "told.json"
    code = ORPHAN.format(busy="import signal; signal.pause()")
    command = [sys.executable, str(program), str(target), sys.executable, "-c", code]
    monkeypatch.setenv("PYTHONPATH", str(Path(supervisor.__file__).parents[2]))
    assert subprocess.run(command, check=False).returncode == 0
    assert json.loads(target.read_text())["left"] == 1


def test_lanes_run_side_by_side_and_keep_their_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Contract: two lanes that wait for each other both end; outcomes come in the order of the lanes, with the output
    and the exit code of each."""
    one, two = tmp_path / "one", tmp_path / "two"
    meet = "import os, sys\nos.open(sys.argv[1], os.O_WRONLY); os.open(sys.argv[2], os.O_RDONLY); print('met')"
    for pipe in (one, two):
        subprocess.run(["mkfifo", str(pipe)], check=True)
    other = "import os, sys\nos.open(sys.argv[1], os.O_RDONLY); os.open(sys.argv[2], os.O_WRONLY); sys.exit(3)"
    lanes = [
        [Stage("first", [sys.executable, "-c", meet, one, two])],
        [Stage("second", [sys.executable, "-c", other, one, two]), Stage("third", [sys.executable, "-c", ""])],
    ]
    first, second, third = run_lanes(lanes)
    assert (first.name, first.code, first.output) == ("first", 0, "met\n")
    assert (second.name, second.code, second.is_ok) == ("second", 3, False)
    assert third.is_ok
    assert "== second: FAILED (exit 3)" in capsys.readouterr().out


def test_a_forked_interpreter_is_an_interpreter(tmp_path: Path) -> None:
    """Contract: `warm` gives a process its own arguments, folder, environment and streams, and its exit code; one that
    is killed is dead; a traceback is on standard error."""
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys\nprint(sys.argv[1:], os.getcwd(), os.environ['WORD'], input())\n"
        "print('to err', file=sys.stderr)\nsys.exit(7)\n"
    )
    answer = warm.run(
        [sys.executable, str(program), "a", "b"],
        cwd=tmp_path,
        env={"WORD": "said", **_same()},
        input="typed",
        capture_output=True,
        text=True,
    )
    assert (answer.returncode, answer.stderr) == (7, "to err\n")
    assert answer.stdout == f"['a', 'b'] {tmp_path} said typed\n"
    program.write_text("print('up', flush=True)\ninput()\n")
    with warm.Popen([sys.executable, str(program)], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        assert process.poll() is None
        process.kill()
        assert process.wait(60) == -9
    program.write_text("raise ValueError('told')\n")
    failed = warm.run([sys.executable, str(program)], capture_output=True, text=True)
    assert failed.returncode == 1
    assert failed.stderr.endswith("ValueError: told\n")


def test_another_hash_seed_is_a_fresh_interpreter(tmp_path: Path) -> None:
    """Contract: what only the start of an interpreter decides is never inherited."""
    program = tmp_path / "hashes.py"
    program.write_text("print(hash('a'))\n")
    seen = {
        warm.run([sys.executable, str(program)], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True).stdout
        for seed in ("1", "2", "3")
    }
    assert len(seen) == 3


def _same() -> dict[str, str]:
    """What decides how an interpreter starts, as it is here: without it a fresh one would be started."""
    return {name: value for name, value in warm.zygote().variables.items() if value is not None}
