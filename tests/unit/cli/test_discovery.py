"""Which app a command means: named, configured, or made of what is found in folders."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from holdfast import App
from holdfast.cli.discovery import find_files
from holdfast.cli.targets import CommandError, app_to_serve
from holdfast.config import load
from tests.unit.cli.conftest import Cli

WORKFLOW = "from holdfast import workflow\n\n\n@workflow\nasync def {name}() -> str:\n    return {text!r}\n"


def put(cli: Cli, path: str, text: str) -> Path:
    file = cli.folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def served(cli: Cli) -> App:
    return app_to_serve(None, load())


def names(app: App) -> list[str]:
    return sorted(spec.name for spec in app.registry)


@pytest.mark.spec("openworkflow.O122", "openworkflow.O123")
def test_workflows_are_found_recursively(cli: Cli) -> None:
    """Contract: every file below the folders is imported and what it defines is served; ignored ones are not."""
    put(cli, "holdfast.toml", 'discover = ["flows"]\nignore = ["**/test_*.py", "old_*.py", "flows/drafts/**"]\n')
    put(cli, "flows/orders.py", WORKFLOW.format(name="order", text="o") + WORKFLOW.format(name="other", text="p"))
    put(cli, "flows/deep/er/parcels.py", "from flows.orders import order\n" + WORKFLOW.format(name="parcel", text="p"))
    for ignored in ("flows/test_orders.py", "flows/deep/old_one.py", "flows/drafts/x/y.py", "flows/.hidden/x.py",
                    "flows/conftest.py", "flows/__pycache__/x.py"):  # fmt: skip
        put(cli, ignored, "raise AssertionError('imported')")
    app = served(cli)
    assert names(app) == ["order", "other", "parcel"]
    assert app.url == cli.url
    assert "flows.orders" in sys.modules  # as its neighbours import it: one module, not two
    assert cli.ok("start", "parcel", "--id", "r") == "r\n"


def test_a_src_folder_is_a_place_to_import_from(cli: Cli) -> None:
    put(cli, "holdfast.toml", 'discover = ["src/flows"]')
    put(cli, "src/flows/orders.py", "import flows\n" + WORKFLOW.format(name="order", text="o"))
    assert names(served(cli)) == ["order"]
    assert "flows.orders" in sys.modules


def test_an_app_that_is_found_is_the_app(cli: Cli) -> None:
    """Contract: its settings and resources hold, and the other files' workflows are added."""
    put(cli, "holdfast.toml", 'discover = ["flows"]')
    put(cli, "flows/a.py", "from holdfast import App\napp = App(step_limit=7)\n")
    put(cli, "flows/b.py", "from flows.a import app\n" + WORKFLOW.format(name="order", text="o"))
    app = served(cli)
    assert app.settings.step_limit == 7
    assert names(app) == ["order"]


@pytest.mark.spec("openworkflow.O123")
@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, ["no folder", "flows"]),
        ({"flows/test_x.py": ""}, ["no Python file", "flows"]),
        ({"flows/empty.py": "x = 1"}, ["no workflow", "flows/empty.py"]),
        ({"flows/bad.py": "x = 1\nraise ValueError('boo')"}, ["flows.bad cannot be imported", "bad.py:2", "boo"]),
        ({"flows/bad.py": "def ("}, ["bad.py:1"]),
        ({"flows/not-a-module.py": "x = 1"}, ["not-a-module.py", "not a module name"]),
        ({"flows/a.py": WORKFLOW.format(name="order", text="a"), "flows/b.py": WORKFLOW.format(name="order", text="b")},
         ["two workflows are called order", "a.py:4", "b.py:4"]),
        ({"flows/a.py": "from holdfast import App\napp = App()", "flows/b.py": "from holdfast import App\nz = App()"},
         ["two apps", "app in ", "a.py", "z in ", "b.py"]),
    ],
    ids=["no folder", "no file", "no workflow", "import error", "syntax", "name", "twice", "two apps"],
)  # fmt: skip
def test_what_cannot_be_served_is_named_by_its_file(cli: Cli, files: dict[str, str], words: list[str]) -> None:
    put(cli, "holdfast.toml", 'discover = ["flows"]')
    for path, text in files.items():
        put(cli, path, text)
    with pytest.raises(CommandError) as caught:
        served(cli)
    assert all(word in caught.value.message for word in words), caught.value.message


def test_a_configured_app_is_imported_from_its_folder(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: from a folder further down the same app and the same store are meant."""
    monkeypatch.delenv("HOLDFAST_URL")
    put(cli, "holdfast.toml", 'app = "shop:app"\n[store]\nurl = "sqlite:///here.db"')
    below = cli.folder / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    assert cli.ok("start", "hello", "name=x", "--id", "r") == "r\n"
    assert (cli.folder / "here.db").exists()
    assert "r" in cli.ok("runs")
    assert "which app?" not in cli("start", "nowhere:app", "hello").error


def test_the_store_of_the_configured_app_is_asked(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: where only the app says which store, reading commands ask that one."""
    monkeypatch.delenv("HOLDFAST_URL")
    put(cli, "holdfast.toml", 'app = "mine:app"')
    put(
        cli,
        "mine.py",
        "from holdfast import App\nfrom shop import hello\napp = App('sqlite:///own.db', workflows=[hello])",
    )
    cli.ok("start", "hello", "name=x", "--id", "r")
    assert (cli.folder / "own.db").exists()
    assert "r\t" in cli.ok("runs")


def test_two_addresses_in_one_project_are_refused(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_URL")
    put(cli, "holdfast.toml", 'app = "mine:app"\n[store]\nurl = "sqlite:///other.db"')
    put(
        cli,
        "mine.py",
        "from holdfast import App\nfrom shop import hello\napp = App('sqlite:///own.db', workflows=[hello])",
    )
    assert "set it in one place" in cli("start", "hello", "name=x").error
    put(cli, "holdfast.toml", 'app = "mine:app"\n[store]\nurl = "sqlite:///own.db"')
    assert cli("start", "hello", "name=x").code == 0


def test_without_an_app_there_is_a_hint(cli: Cli) -> None:
    answer = cli("start", "hello", "name=x")
    assert answer.code == 2
    assert "which app?" in answer.error
    assert "holdfast.toml" in answer.error
    assert "which workflow" in cli("start", "shop:app").error


def test_a_config_can_be_named(cli: Cli) -> None:
    """Contract: `--config`, before or after the command, is the only file that is read."""
    put(cli, "other.toml", 'app = "shop:app"')
    assert cli.ok("--config", "other.toml", "start", "hello", "name=x", "--id", "a") == "a\n"
    assert cli.ok("start", "--config", "other.toml", "hello", "name=x", "--id", "b") == "b\n"
    assert "configuration file does not exist" in cli("runs", "--config", "missing.toml").error
    put(cli, "bad.toml", 'ap = "shop:app"')
    assert "Did you mean app?" in cli("runs", "--config", "bad.toml").error


def test_files_are_ignored_by_path_or_by_name(tmp_path: Path) -> None:
    """Contract: a glob is matched against the path from the project's folder, and against the name alone."""
    for name in ("f/a.py", "f/x/b_run.py", "f/x/c.py", "f/test_d.py", "f/x/y/e.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    def found(*ignore: str) -> list[str]:
        return [path.relative_to(tmp_path.resolve()).as_posix() for path in find_files(tmp_path, ["f"], ignore)]

    assert found() == ["f/a.py", "f/test_d.py", "f/x/b_run.py", "f/x/c.py"]
    assert found("**/test_*.py", "**/*_run.py") == ["f/a.py", "f/x/c.py"]
    assert found("f/*.py") == ["f/x/b_run.py", "f/x/c.py"]
    assert found("f/x/**") == ["f/a.py", "f/test_d.py"]
    assert found("?.py") == ["f/test_d.py", "f/x/b_run.py"]
    assert find_files(tmp_path, ["f/a.py"], ()) == [(tmp_path / "f/a.py").resolve()]
