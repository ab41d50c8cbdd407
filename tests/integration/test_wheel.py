"""What users install: the wheel's content, and that it works in an environment that holds nothing else."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable
from email.parser import HeaderParser
from pathlib import Path

import pytest

from holdfast.extras import DISTRIBUTION

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src" / "holdfast"
UV = ROOT / ".tools" / "bin" / "uv"
HELLO = """
from holdfast import App, step, workflow

@step
async def greet(name: str) -> str:
    return f"hello {name}"

@workflow
async def hello(name: str) -> str:
    return await greet(name)

app = App(workflows=[hello])
if __name__ == "__main__":
    print(app.run(hello("world"), id="first"))
"""
OURS = ("HOLDFAST_", "PYTHON", "COV", "VIRTUAL_ENV", "PYTEST")

Call = Callable[..., "subprocess.CompletedProcess[str]"]


def run(*argv: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs a program as a user would, without what the suite put into the environment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return subprocess.run(
        [str(word) for word in argv], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    built = run(sys.executable, "-m", "flit_core.wheel", "--outdir", folder, cwd=ROOT)
    assert built.returncode == 0, built.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture
def python(wheel: Path, tmp_path: Path) -> Path:
    """The interpreter of a fresh environment that holds the wheel and what it requires."""
    environment = tmp_path / "environment"
    made = run(UV, "venv", "--quiet", "--python", sys.executable, environment, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    install(environment / "bin" / "python", wheel, "--constraints", ROOT / "constraints.txt")
    return environment / "bin" / "python"


def install(python: Path, wheel: Path, *options: str | Path) -> None:
    done = run(UV, "pip", "install", "--quiet", "--python", python, *options, wheel, cwd=wheel.parent)
    assert done.returncode == 0, done.stderr


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    """Promise: every file of the package, SQL and type marker included; no tests, no `.pth`, nothing beside it."""
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    sources = {
        f"holdfast/{path.relative_to(SOURCES)}"
        for path in SOURCES.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert names == sources
    assert {Path(name).suffix for name in names} >= {".py", ".sql", ".typed"}


def test_the_wheel_is_called_holdfast_workflows(wheel: Path) -> None:
    """Promise: the name on the index is ours, and `all` brings every other extra."""
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    found = HeaderParser().parsestr(archive.read(name).decode())
    assert found["Name"] == DISTRIBUTION
    extras = set(found.get_all("Provides-Extra", []))
    (everything,) = (line for line in found.get_all("Requires-Dist", []) if line.startswith(DISTRIBUTION))
    assert {word.strip() for word in everything.split("[")[1].split("]")[0].split(",")} == extras - {"all"}


def test_it_works_in_an_empty_environment(python: Path, tmp_path: Path) -> None:
    """Promise: help, a first workflow and `init` need nothing but the wheel."""
    holdfast = python.with_name("holdfast")
    assert "Durable workflows" in run(holdfast, "--help", cwd=tmp_path).stdout
    (tmp_path / "hello.py").write_text(HELLO)
    said = run(python, "hello.py", cwd=tmp_path)
    assert (said.stdout, said.returncode) == ("hello world\n", 0), said.stderr
    made = run(holdfast, "init", "shop", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "shop" / "holdfast.toml").is_file()


def test_a_missing_extra_names_a_command_that_works_there(python: Path, tmp_path: Path) -> None:
    """Promise: the command is for this environment, which has no pip, and its requirement is one pip and uv accept."""
    said = run(python.with_name("holdfast"), "runs", "--url", "postgresql://nowhere/shop", cwd=tmp_path)
    command = said.stderr.split("Install it:")[1].split()
    assert command[:5] == ["uv", "pip", "install", "--python", str(python)]
    words = shlex.split(" ".join(command))
    tried = run(
        UV, *words[1:5], "--dry-run", "--no-deps", "--no-index", "--find-links", tmp_path, words[5], cwd=tmp_path
    )
    assert words[5] == f"{DISTRIBUTION}[postgres]"
    assert "Audited" in tried.stderr or "Would" in tried.stderr, tried.stderr


def test_beside_a_package_of_the_same_name_it_says_so(python: Path, tmp_path: Path) -> None:
    """Promise: when another project's `holdfast` has overwritten ours, the command says what to remove, and no more."""
    stranger = tmp_path / "holdfast-9.9-py3-none-any.whl"
    with zipfile.ZipFile(stranger, "w") as archive:
        archive.writestr("holdfast/__init__.py", '"""Another project."""\n')
        archive.writestr("holdfast-9.9.dist-info/METADATA", "Metadata-Version: 2.1\nName: holdfast\nVersion: 9.9\n")
        archive.writestr(
            "holdfast-9.9.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("holdfast-9.9.dist-info/RECORD", "")
    install(python, stranger, "--no-deps")
    said = run(python.with_name("holdfast"), "--help", cwd=tmp_path)
    assert (said.returncode, said.stdout) == (1, "")
    assert "Another project's package, 'holdfast', is installed" in said.stderr
    assert f"uv pip uninstall --python {python} holdfast" in said.stderr
