"""`holdfast queues`."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.unit.cli.conftest import Cli


@pytest.fixture(autouse=True)
def a_store(cli: Cli) -> None:
    """There is one."""

    async def made() -> None:
        async with cli.app:
            await cli.app.client()

    asyncio.run(made())


def test_queues_are_listed_and_changed(cli: Cli, caplog: pytest.LogCaptureFixture) -> None:
    """Contract: a line each; pause with a reason, resume, set, reset. Who did it is recorded."""
    assert cli.ok("queues").split("\t")[:3] == ["default", "0", "0"]
    with caplog.at_level("INFO", "holdfast.audit"):
        assert "paused" in cli.ok("queues", "pause", "mail", "--reason", "provider is down", "--as", "ann")
    assert "ann: queues pause (mail)" in caplog.messages
    line = cli.ok("queues", "list").splitlines()[1].split("\t")
    assert (line[0], line[-1]) == ("mail", "paused by ann: provider is down")
    assert "has no rules" in cli.ok("queues", "resume", "mail")
    text = cli.ok("queues", "set", "mail", "--at-once", "5", "--rate", "20/m", "--share", "gold=3", "--parked", "frees")
    assert "at_once 5, rate 20/m, shares gold=3, parked frees, set by hand: at_once, parked, rate, shares" in text
    shown = [json.loads(line) for line in cli.ok("queues", "--json").splitlines()]
    assert [(one["name"], one["at_once"], one["rate"]) for one in shown] == [
        ("default", None, None),
        ("mail", 5, "20/m"),
    ]
    lifted = json.loads(cli.ok("queues", "set", "mail", "--at-once", "none", "--json"))
    assert (lifted["at_once"], lifted["rate"]) == (None, "20/m")
    assert "has no rules" in cli.ok("queues", "reset", "mail")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--at-once", "0"], "at_once=0"),
        (["--rate", "50/x"], "rate='50/x'"),
        (["--share", "gold=0"], "weight"),
        (["--share", "gold"], "SHARE=WEIGHT"),
        (["--at-once", "many"], "whole number"),
        ([], "nothing to set"),
    ],
)
def test_wrong_rules_are_refused(cli: Cli, given: list[str], said: str) -> None:
    """Contract: one sentence, and nothing is written."""
    result = cli("queues", "set", "mail", *given)
    assert result.code != 0
    assert said in result.error
    assert len(cli.ok("queues").splitlines()) == 1
