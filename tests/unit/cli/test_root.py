"""What every command has."""

from __future__ import annotations

import pytest

from holdfast.cli.commands.flow import FlowGroup
from holdfast.cli.root import COMMANDS, GROUPS
from tests.unit.cli.conftest import Cli


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_json_debug_config_and_a_summary(cli: Cli, name: str) -> None:
    """Contract: `--json` on every command, and each is in the list of commands with a word on what it does."""
    parts = {
        "flow": list(FlowGroup.groups["Commands"]),
        "tokens": ["add", "list", "revoke"],
        "messages": ["list", "drop", "replace"],
        "schedules": ["list", "pause", "resume", "trigger", "backfill", "remove"],
        "queues": ["list", "pause", "resume", "set", "reset"],
        "limits": ["list", "show", "set", "reset", "pause", "resume"],
    }
    ways = [(name, part) for part in parts[name]] if name in parts else [(name,)]
    for words in ways:
        text = cli.ok(*words, "--help")
        assert all(option in text for option in ("--json", "--debug", "--config", "--help")), words
    assert any(line.split()[:1] == [name] and len(line.split()) > 2 for line in cli.ok("--help").splitlines())


def test_commands_are_listed_in_groups(cli: Cli) -> None:
    """Promise: `--help` shows what a newcomer needs first, and each command below the title of its group."""
    shown: dict[str, list[str]] = {}
    title = ""
    for line in cli.ok("--help").splitlines():
        if line.endswith(":") and not line.startswith(" "):
            title = line.removesuffix(":")
            shown[title] = []
        elif line.startswith("  ") and shown and line.split()[0] in COMMANDS:
            shown[title].append(line.split()[0])
    shown.pop("Options", None)
    assert shown == {title: list(group) for title, group in GROUPS.items()}
    assert next(iter(shown)) == "First steps"
