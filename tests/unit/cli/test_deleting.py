"""`holdfast delete`: confirmed, all or nothing where it can be known, and recorded."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.conftest import Cli


def ids(cli: Cli) -> set[str]:
    return {line.split("\t")[0] for line in cli.ok("runs").splitlines()}


def test_deleting_needs_a_yes(cli: Cli) -> None:
    """Contract: in a pipe nothing is deleted without --yes, and the error says so."""
    cli.start("hello", "name=x", "--id", "a")
    cli.finish("a")
    unsure = cli("delete", "a")
    assert (unsure.code, "--yes" in unsure.error, ids(cli)) == (2, True, {"a"})
    assert cli("delete").code == 2
    assert cli.ok("delete", "a", "--yes") == "deleted 1 run (1 tree)\n"
    assert ids(cli) == set()


def test_a_run_that_cannot_be_deleted_keeps_all(cli: Cli) -> None:
    """Contract: one that is open, a child or not there is named before the first is deleted."""
    cli.start("parent", "name=x", "--id", "p")
    cli.start("hello", "name=x", "--id", "a")
    cli.finish("a", "p")
    cli.start("hello", "name=x", "--id", "open")
    before = ids(cli)
    [child] = before - {"a", "p", "open"}
    for other, said in (("open", "holdfast cancel open"), (child, "tree of p"), ("nobody", "no run 'nobody'")):
        answer = cli("delete", "a", other, "--yes")
        assert (answer.code, said in answer.error) == (1, True), answer.err
        assert ids(cli) == before
    lines = [json.loads(line) for line in cli.ok("delete", "p", "a", "p", "--yes", "--json").splitlines()]
    assert lines == [{"run": "p", "runs": 2}, {"run": "a", "runs": 1}, {"verb": "delete", "runs": 3, "problems": 0}]
    assert ids(cli) == {"open"}


def test_a_deletion_says_who_did_it(cli: Cli, caplog: pytest.LogCaptureFixture) -> None:
    """Contract: the journal is gone, so the audit log is what tells of it."""
    cli.start("hello", "name=x", "--id", "a")
    cli.finish("a")
    caplog.set_level("INFO", "holdfast.audit")
    cli.ok("delete", "a", "--yes", "--as", "amy")
    acts = [record.__dict__ for record in caplog.records if record.name == "holdfast.audit"]
    assert [(act["actor"], act["verb"], act["run"]) for act in acts] == [("amy", "delete", "a")]
