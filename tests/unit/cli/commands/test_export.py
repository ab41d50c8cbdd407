"""`export` and `import`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from holdfast.adapters.sqlite import open_sqlite
from holdfast.testing import replay
from tests.unit.cli.conftest import Cli


async def make(file: Path) -> None:
    """A new, empty store."""
    await (await open_sqlite(file)).close()


def test_a_run_becomes_a_fixture_and_comes_back(cli: Cli) -> None:
    """Contract: what `export` writes replays with the app, and is imported once."""
    name = cli.start("parent", "name=you", "--id", "greeting")
    cli.finish(name)
    said = cli.ok("export", "greeting", "-o", "greeting.json")
    assert "run greeting exported to greeting.json" in said
    replay("*.json", cli.app).assert_ok()
    assert "already exists" in cli("export", "greeting", "-o", "greeting.json").error
    assert "already: nothing was imported" in cli("import", "greeting.json").error
    other = f"sqlite:///{cli.folder / 'other.db'}"
    asyncio.run(make(cli.folder / "other.db"))
    assert "run greeting imported" in cli.ok("import", "greeting.json", "--url", other)
    assert "no problems" in cli.ok("verify", "--url", other)
    assert cli("runs", "--url", other, "--json").code == 0


def test_what_is_not_there_is_said(cli: Cli) -> None:
    cli.finish(cli.start("hello", "name=you", "--id", "first"))
    assert "no run 'fist'" in cli("export", "fist").error
    assert "nowhere.json" in cli("import", "nowhere.json").error
    (cli.folder / "notes.json").write_text("{}")
    assert "notes.json is not an exported journal" in cli("import", "notes.json").error


def test_secrets_in_a_journal_are_warned_of(cli: Cli) -> None:
    """Promise: an export has payloads as they are stored, so one with a flow's secrets says so; others say nothing."""
    keeper = {"holdfast": 1, "name": "keeper", "vars": {"token": {"secret": True}}, "output": "${input}"}
    (cli.folder / "keeper.json").write_text(json.dumps(keeper))
    (cli.folder / "two.jsonl").write_text("1\n2\n")
    cli.ok("flow", "run", "keeper.json", "shop:app", "--id", "one", "--input", "1", "--var", "token=hunter22")
    batch = ["--id", "many", "--inputs", "two.jsonl", "--out", "out.jsonl"]
    assert cli("flow", "batch", "keeper.json", "shop:app", *batch, "--var", "token=hunter22").code == 0
    cli.finish(cli.start("hello", "name=you", "--id", "plain"))
    for run in ("one", "many"):
        assert f"the journal of {run} contains secret variables in plain text" in cli("export", run).err
    assert cli("export", "plain").err == ""
