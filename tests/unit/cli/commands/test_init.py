"""`holdfast init`: the project it writes is run, checked and never written over another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli import invocation
from holdfast.cli.project import FILES
from tests.unit.cli.conftest import Cli

SECONDS = 120


def python(folder: Path, *arguments: str) -> str:
    answer = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


@pytest.mark.slow
@pytest.mark.spec("openworkflow.O124", "openworkflow.O125")
def test_the_project_runs(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: its example and its tests pass as they are, and its configuration names an app that serves."""
    for variable in ("HOLDFAST_URL", "HOLDFAST_CONFIG", "PYTEST_CURRENT_TEST"):
        monkeypatch.delenv(variable, raising=False)
    shown = cli.ok("init", "shop")
    folder = cli.folder / "shop"
    assert all(str(Path("shop") / name) in shown for name in FILES)
    assert "holdfast worker" in shown
    assert python(folder, "example.py") == "order 1 is paid with payment-1\n"
    assert python(folder, "example.py") == "order 1 is paid with payment-1\n"
    assert "2 passed" in python(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    monkeypatch.chdir(folder)
    assert cli.ok("start", "fulfil", 'order={"id": "42", "cents": 999}', "--id", "order-42") == "order-42\n"
    assert "serves fulfil" in cli("doctor").out
    assert cli.ok("runs").startswith("order-42\tpending")


@pytest.mark.slow
def test_the_tests_pass_below_a_project_with_a_mind_of_its_own(cli: Cli) -> None:
    """Promise: what pytest is told further up, in the repository that `init` was called in, is not for these tests."""
    (cli.folder / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\naddopts = "--import-mode=importlib --no-such-option"\n'
    )
    cli.ok("init", "shop")
    assert "2 passed" in python(cli.folder / "shop", "-m", "pytest", "-q", "-p", "no:cacheprovider")


def next_commands(cli: Cli, *arguments: str) -> list[str]:
    """What `init` says has to be typed."""
    lines = cli.ok("init", *arguments).splitlines()
    return [line.strip() for line in lines[lines.index("Next:") + 1 :] if line.startswith("    ")]


def test_what_it_says_can_be_typed(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: the way into the folder is said, and into the environment if the command is not on the path."""
    monkeypatch.setattr("holdfast.cli.invocation.shutil.which", lambda _: "/usr/bin/holdfast")
    assert next_commands(cli, "my shop")[:2] == ["cd 'my shop'", "python example.py"]
    monkeypatch.chdir(cli.folder / "my shop")
    monkeypatch.setattr("holdfast.cli.invocation.shutil.which", lambda _: None)
    environment = cli.folder / "env"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "activate").write_text("")
    monkeypatch.setattr(sys, "prefix", str(environment))
    (cli.folder / "here").mkdir()
    monkeypatch.chdir(cli.folder / "here")
    assert next_commands(cli, ".")[:2] == [f". {environment}/bin/activate", "python example.py"]
    assert invocation.program() == "holdfast"
    (environment / "bin" / "holdfast").write_text("")
    monkeypatch.chdir(cli.folder)
    assert invocation.program() == "env/bin/holdfast"


def test_tests_that_cannot_run_yet_are_said_so(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: where pytest is missing, the advice to call it says so."""
    monkeypatch.setattr("holdfast.cli.commands.init.find_spec", lambda _: None)
    assert "install pytest first" in cli.ok("init", "shop")


@pytest.mark.slow
def test_the_project_is_typed(tmp_path: Path) -> None:
    """Contract: what newcomers copy passes mypy strict."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    answer = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "app.py", "example.py",
         "test_orders.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout


@pytest.mark.spec("openworkflow.O125")
def test_nothing_is_overwritten(cli: Cli) -> None:
    """Contract: one file in the way, and nothing at all is written."""
    (cli.folder / "shop").mkdir()
    (cli.folder / "shop" / "app.py").write_text("mine")
    answer = cli("init", "shop")
    assert answer.code == 1
    assert "shop/app.py is there already" in answer.error
    assert [path.name for path in (cli.folder / "shop").iterdir()] == ["app.py"]
    assert (cli.folder / "shop" / "app.py").read_text() == "mine"
    assert cli("init", "shop.py").error.endswith("is a file; name a folder")


def test_other_files_are_no_hindrance_and_programs_get_a_list(cli: Cli) -> None:
    (cli.folder / "shop").mkdir()
    (cli.folder / "shop" / "notes.txt").write_text("mine")
    assert cli("init", "shop", "--json").json["files"] == [f"shop/{name}" for name in FILES]


def test_a_gitignore_that_is_there_is_kept(cli: Cli) -> None:
    """Contract: a repository just made has one; it is no hindrance, and stays as it is."""
    (cli.folder / ".gitignore").write_text("mine\n")
    assert ".gitignore" not in cli("init", ".", "--json").json["files"]
    assert (cli.folder / ".gitignore").read_text() == "mine\n"
    assert (cli.folder / "holdfast.toml").exists()


def test_it_ends_with_a_crash_that_the_reader_causes(cli: Cli) -> None:
    """Contract: a worker is killed between the charge and the approval; `dev` is named."""
    words = next_commands(cli, "shop")
    crash = next(number for number, line in enumerate(words) if line.startswith("# press Ctrl-"))
    assert words.index("holdfast worker") < crash < words.index("holdfast signal order-42 approved true")
    assert words[crash:].index("holdfast worker") < words[crash:].index("holdfast show order-42")
    assert "holdfast dev" in words


def test_a_folder_that_cannot_be_written_is_a_sentence(cli: Cli) -> None:
    (cli.folder / "in_the_way").write_text("")
    answer = cli("init", "in_the_way/shop")
    assert answer.code == 1
    assert "in_the_way" in answer.error
