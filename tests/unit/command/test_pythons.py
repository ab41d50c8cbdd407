"""`dev.py test --python`: the suite under another installed interpreter."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import dev


def interpreter(path: Path, version: str) -> Path:
    """A program that says it is that version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {version}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No interpreter on PATH, none of pyenv."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    return tmp_path


def test_an_interpreter_on_path_comes_first(nothing_installed: Path) -> None:
    """Promise: what the shell would start is taken before pyenv's."""
    interpreter(nothing_installed / "pyenv/versions/3.13.2/bin/python", "3.13")
    first = interpreter(nothing_installed / "bin/python3.13", "3.13")
    assert dev.find_python("3.13") == first


def test_a_program_that_is_another_version_is_passed_over(nothing_installed: Path) -> None:
    """Promise: pyenv's shims, which fail unless their version is chosen, are none."""
    interpreter(nothing_installed / "bin/python3.13", "''")
    found = interpreter(nothing_installed / "pyenv/versions/3.13.2/bin/python", "3.13")
    assert dev.find_python("3.13") == found


@pytest.mark.parametrize("version", ["3", "3.13.1", "pypy", "../bin"])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(dev.SetupError, match=r"such as 3\.13"):
        dev.find_python(version)


def test_a_version_that_is_not_installed_is_named(nothing_installed: Path) -> None:
    with pytest.raises(dev.SetupError, match=r"3\.14 is not installed"):
        dev.find_python("3.14")


def test_the_command_runs_in_an_environment_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: the other arguments are handed on, and `.venv` is left alone."""
    asked: list[tuple[list[str], object]] = []

    def found(version: str) -> Path:
        assert version == "3.13"
        return Path(sys.executable)

    def note(argv: list[object], env: object = None) -> int:
        asked.append(([str(word) for word in argv], env))
        return 7

    monkeypatch.setattr(dev, "execute", note)
    monkeypatch.setattr(dev, "find_python", found)
    assert dev.test(["--quick", "--python", "3.13", "--", "-k", "x"]) == 7
    wanted = [sys.executable, str(dev.ROOT / "dev.py"), "test", "--quick", "--", "-k", "x"]
    assert asked == [(wanted, {"HOLDFAST_VENV": ".venv-3.13"})]
