"""`holdfast completion`."""

from __future__ import annotations

import pytest

from tests.unit.cli.conftest import Cli


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script(cli: Cli, shell: str) -> None:
    assert "_HOLDFAST_COMPLETE" in cli.ok("completion", shell)
    assert cli("completion", shell, "--json").json["shell"] == shell


def test_words_are_completed(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: what the script asks is answered: commands, then options."""
    monkeypatch.setenv("_HOLDFAST_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "holdfast re")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert {line.split(",")[1] for line in cli.ok().splitlines()} == {"read", "redact", "resume", "retry"}
    monkeypatch.setenv("COMP_WORDS", "holdfast runs --st")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert cli.ok().split() == ["plain,--status"]


def test_an_unknown_shell_is_wrong_usage(cli: Cli) -> None:
    assert cli("completion", "tcsh").code == 2
