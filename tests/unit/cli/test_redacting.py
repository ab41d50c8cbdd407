"""`holdfast redact`: confirmed, looked at first if asked, and recorded without the value."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.conftest import Cli


def test_redacting_needs_a_yes(cli: Cli) -> None:
    """Contract: in a pipe nothing is redacted without --yes; a dry run needs none and changes nothing."""
    cli.start("hello", "name=bob@x.org", "--id", "a")
    cli.finish("a")
    unsure = cli("redact", "a", "input.name")
    assert (unsure.code, "--yes" in unsure.error, "--dry-run" in unsure.error) == (2, True, True)
    dry = cli.ok("redact", "a", "input.name", "--dry-run")
    assert dry.splitlines() == [
        "would redact 4 places of run a",
        "  input",
        "  steps.greet.input",
        "  steps.greet.result",
        "  result",
        "searched 0 other runs for it",
    ]
    assert "bob@x.org" in cli.ok("show", "a")
    assert cli.ok("redact", "a", "input.name", "--yes").startswith("redacted 4 places of run a\n")
    assert "bob@x.org" not in cli.ok("show", "a", "--json")


def test_a_redaction_says_who_did_it(cli: Cli, caplog: pytest.LogCaptureFixture) -> None:
    """Contract: `show` and the audit log name the actor; neither has the value."""
    cli.start("hello", "name=bob@x.org", "--id", "a")
    cli.finish("a")
    caplog.set_level("INFO", "holdfast.audit")
    why = ("--reason", "bob@x.org asked", "--as", "amy")
    done = json.loads(cli.ok("redact", "a", "input.name", "--yes", "--json", *why))
    assert (done["run"], len(done["changed"]), done["left_in"], done["is_dry"]) == ("a", 4, [], False)
    acts = [record.__dict__ for record in caplog.records if record.name == "holdfast.audit"]
    assert [(act["actor"], act["verb"], act["run"]) for act in acts] == [("amy", "redact", "a")]
    assert "bob@" not in caplog.text
    shown = cli.ok("show", "a")
    assert "bob@" not in shown
    assert "asked), at 20" in shown
    assert "(by amy)" in shown


def test_what_cannot_be_redacted_is_said(cli: Cli) -> None:
    """Contract: an open run and a path with nothing are errors that say what next."""
    cli.start("hello", "name=x", "--id", "a")
    refused = cli("redact", "a", "input.name", "--yes")
    assert (refused.code, "holdfast cancel a" in refused.error) == (1, True)
    cli.finish("a")
    missing = cli("redact", "a", "input.nam", "--yes")
    assert (missing.code, "Did you mean input.name" in missing.error) == (1, True)
