"""`holdfast config`."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.conftest import Cli


def test_every_setting_is_shown_with_its_origin(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: key, value as a file would hold it, who said so; a password is never shown."""
    (cli.folder / "holdfast.toml").write_text('[leases]\nttl = "90s"\n[worker]\nqueues = ["a", "b"]')
    monkeypatch.setenv("HOLDFAST_URL", "postgresql://me:secret@host/db?schema=x&password=secret")
    lines = dict(line.split("\t", 1) for line in cli.ok("config").splitlines())
    assert lines["leases.ttl"] == '"1m30s"\tholdfast.toml'
    assert lines["worker.queues"] == '["a","b"]\tholdfast.toml'
    assert lines["worker.concurrency"] == "100\tdefault"
    assert lines["store.url"] == '"postgresql://me@host/db?schema=x"\t$HOLDFAST_URL'
    whole = cli("config", "--json").json
    assert whole["file"] == str(cli.folder / "holdfast.toml")
    monkeypatch.setenv("HOLDFAST_HTTP_SESSION_KEY", "hunter2")
    assert "hunter2" not in cli.ok("config") + cli.ok("config", "--json")
    assert whole["settings"]["leases.ttl"] == {"value": "1m30s", "origin": whole["file"]}
    assert "secret" not in json.dumps(whole)


def test_a_wrong_configuration_is_a_sentence(cli: Cli) -> None:
    (cli.folder / "holdfast.toml").write_text("[worker]\nconcurency = 3")
    answer = cli("config")
    assert answer.code == 1
    assert "Did you mean concurrency?" in answer.error
