"""A decorated function keeps its type: right uses pass both checkers in strict mode, wrong ones are refused by both."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
MARK = "# error"


def by_mypy(path: Path) -> dict[int, str]:
    command = ["-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--no-pretty", "--no-error-summary"]
    done = subprocess.run(
        [sys.executable, *command, "--cache-dir", str(ROOT / ".mypy_cache"), str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(rf"^.*{re.escape(path.name)}:(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    assert found or done.returncode == 0, done.stdout + done.stderr
    return {int(line): message for line, message in found}


def by_pyright(path: Path) -> dict[int, str]:
    settings = {
        "include": [path.name],
        "extraPaths": [str(ROOT / "src")],
        "pythonVersion": "3.11",
        "typeCheckingMode": "strict",
        "reportUnnecessaryIsInstance": "none",
        "venvPath": str(ROOT),
        "venv": ".venv",
    }
    (path.parent / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--project", str(path.parent)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {x["range"]["start"]["line"] + 1: x["message"] for x in found if x["severity"] == "error"}


CHECKERS: dict[str, Callable[[Path], dict[int, str]]] = {"mypy": by_mypy, "pyright": by_pyright}


@pytest.mark.slow
@pytest.mark.parametrize("uses", ["right.py", "right_machines.py"])
@pytest.mark.parametrize("checker", CHECKERS)
def test_right_uses_are_accepted(checker: str, uses: str, tmp_path: Path) -> None:
    """Contract: a module like the one in the documentation is clean in strict mode."""
    path = tmp_path / "right_uses.py"
    shutil.copy(FOLDER / uses, path)
    assert CHECKERS[checker](path) == {}


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_wrong_uses_are_refused(checker: str, tmp_path: Path) -> None:
    """Contract: every marked line is refused, and no other one."""
    path = tmp_path / "wrong_uses.py"
    shutil.copy(FOLDER / "wrong.py.txt", path)
    lines = path.read_text(encoding="utf-8").splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith(MARK)}
    found = CHECKERS[checker](path)
    missed = [f"{number}: {lines[number - 1]}" for number in sorted(marked - set(found))]
    surprising = [f"{number}: {found[number]}" for number in sorted(set(found) - marked)]
    assert not missed, "\n".join(missed)
    assert not surprising, "\n".join(surprising)
