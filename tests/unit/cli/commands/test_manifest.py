"""`holdfast manifest`: what an app can run, from the command line."""

from __future__ import annotations

from pathlib import Path

from tests.unit.cli.conftest import Cli


def test_it_lists_what_the_app_can_run(cli: Cli) -> None:
    """Promise: one line each in a pipe; asking does not make a store."""
    lines = [line.split("\t") for line in cli.ok("manifest", "shop:app").splitlines()]
    assert [line[0] for line in lines] == ["approval", "fails", "hello", "parent", "payment", "priced"]
    assert [line[1:3] for line in lines if line[0] == "priced"] == [["2", "script"]]
    assert not Path("store.db").exists()


def test_what_runs_asked_for_is_shown_as_seen(cli: Cli) -> None:
    """Promise: after a run its steps are shown, unless nobody wants the store opened."""
    cli.finish(cli.start("hello", "name=you"))
    [seen] = [line for line in cli.ok("manifest", "shop:app").splitlines() if line.startswith("hello\t")]
    assert seen.endswith("\tseen: greet")
    assert "seen" not in cli.ok("manifest", "shop:app", "--observe", "0")


def test_json_is_the_whole_manifest(cli: Cli) -> None:
    """Promise: --json gives schemas and policies too."""
    manifest = cli("manifest", "shop:app", "--json").json
    assert manifest["format"] == 1
    [priced] = [each for each in manifest["workflows"] if each["name"] == "priced"]
    assert priced["input"]["$defs"]["Order"]["required"] == ["id", "cents"]
    assert priced["output"] == {"type": "integer"}


def test_an_app_that_is_not_there_is_said_so(cli: Cli) -> None:
    """Promise: a wrong name is one sentence."""
    assert "shop:ap" in cli("manifest", "shop:ap").error or "'ap'" in cli("manifest", "shop:ap").error
