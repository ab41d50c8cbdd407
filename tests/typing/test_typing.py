"""A decorated function keeps its type: right uses pass both checkers in strict mode, wrong ones are refused by both."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
MARK = "# error"
USES = {"right.py": "right_uses.py", "right_machines.py": "right_machines.py", "wrong.py.txt": "wrong_uses.py"}
"""The modules to look at, and under which name."""

Found: TypeAlias = dict[tuple[str, int], str]
"""By file and line: what a checker says."""


def by_mypy(folder: Path) -> Found:
    command = ["-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--no-pretty", "--no-error-summary"]
    done = subprocess.run(
        [sys.executable, *command, "--cache-dir", str(ROOT / ".mypy_cache"), *map(str, sorted(folder.glob("*.py")))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(r"^.*?(\w+\.py):(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    assert found or done.returncode == 0, done.stdout + done.stderr
    return {(name, int(line)): message for name, line, message in found}


def by_pyright(folder: Path) -> Found:
    settings = {
        "include": ["."],
        "extraPaths": [str(ROOT / "src")],
        "pythonVersion": "3.11",
        "typeCheckingMode": "strict",
        "reportUnnecessaryIsInstance": "none",
        "venvPath": str(ROOT),
        "venv": ".venv",
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--project", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = [x for x in json.loads(done.stdout)["generalDiagnostics"] if x["severity"] == "error"]
    return {(Path(x["file"]).name, x["range"]["start"]["line"] + 1): x["message"] for x in found}


CHECKERS: dict[str, Callable[[Path], Found]] = {"mypy": by_mypy, "pyright": by_pyright}


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_exactly_the_marked_lines_are_refused(checker: str, tmp_path: Path) -> None:
    """Contract: modules like those in the documentation are clean in strict mode; every marked line of wrong uses is
    refused, and no other one. (One look at all of them: each would read the whole package again.)"""
    lines: dict[tuple[str, int], str] = {}
    for source, name in USES.items():
        shutil.copy(FOLDER / source, tmp_path / name)
        text = (tmp_path / name).read_text(encoding="utf-8")
        lines |= {(name, number): line for number, line in enumerate(text.splitlines(), 1)}
    marked = {place for place, line in lines.items() if line.endswith(MARK)}
    assert {name for name, _ in marked} == {"wrong_uses.py"}
    found = CHECKERS[checker](tmp_path)
    missed = [f"{name}:{number}: {lines[name, number]}" for name, number in sorted(marked - set(found))]
    surprising = [f"{name}:{number}: {found[name, number]}" for name, number in sorted(set(found) - marked)]
    assert not missed, "\n".join(missed)
    assert not surprising, "\n".join(surprising)
