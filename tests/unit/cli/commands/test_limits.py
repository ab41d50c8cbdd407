"""`holdfast limits`."""

from __future__ import annotations

import asyncio
import json

import pytest

from holdfast.client.limits import BusyLineView, PlaceHolder
from holdfast.core.limit import Rule
from holdfast.upkeep.limit_book import declare
from tests.unit.cli.conftest import Cli


def make(cli: Cli) -> None:
    async def put() -> None:
        async with cli.app as app:
            client = await app.client()
            await declare(client.store, {"api": Rule(20_000, 10, None), "customer": Rule(at_once=5)}, instance="i1")

    asyncio.run(put())


def test_limits_are_listed_and_acted_upon(cli: Cli, caplog: pytest.LogCaptureFixture) -> None:
    """Contract: a line each; set counts until reset; pause has a reason. Who did it is recorded."""
    make(cli)
    api, customer = [line.split("\t") for line in cli.ok("limits").splitlines()]
    assert api == ["api", "declared", "0", "0", "", "50/s", "10", "0", ""]
    assert customer == ["customer", "declared", "0", "0", "5", "", "", "0", ""]
    with caplog.at_level("INFO", "holdfast.audit"):
        assert "rate 10/s" in cli.ok("limits", "set", "api", "--rate", "10/s", "--as", "ann")
    assert "ann: limits set (api)" in caplog.messages
    shown = [json.loads(line) for line in cli.ok("limits", "--json").splitlines()]
    assert (shown[0]["rate"], shown[0]["by_hand"]) == ("10/s", True)
    assert "at once 7" in cli.ok("limits", "set", "customer", "--at-once", "7")
    assert "rate 50/s" in cli.ok("limits", "reset", "api")
    assert "paused: maintenance" in cli.ok("limits", "pause", "api", "--reason", "maintenance")
    assert "declared" in cli.ok("limits", "resume", "api")
    assert cli.ok("limits", "show", "api") == ""
    assert cli.ok("limits", "show", "api", "--busiest") == ""


def test_what_is_wrong_is_said(cli: Cli) -> None:
    """Contract: an unknown limit and values that make no sense end with 1 and one sentence."""
    make(cli)
    assert "no limit 'nothing'" in cli("limits", "pause", "nothing").error
    assert "'x' is not a period" in cli("limits", "set", "api", "--rate", "50/x").error
    assert "at_once=0 is not" in cli("limits", "set", "customer", "--at-once", "0").error
    assert "nothing to set" in cli("limits", "set", "api").error


def test_the_busiest_keys_name_who_holds_them(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: a line each: key, held, waiting, next, then run and step of each place; with --json an object each."""
    make(cli)

    async def busiest(*_: object) -> list[BusyLineView]:
        places = (PlaceHolder("order-1", "price"), PlaceHolder("order-2", "price:1"))
        return [BusyLineView(key="acme", held=2, waiting=7, next=None, places=places)]

    monkeypatch.setattr("holdfast.client.limits.busiest", busiest)
    shown = cli.ok("limits", "show", "customer", "--busiest").rstrip("\n")
    assert shown.split("\t") == ["acme", "2", "7", "", "order-1 price, order-2 price:1"]
    (one,) = [json.loads(line) for line in cli.ok("limits", "show", "customer", "--busiest", "--json").splitlines()]
    assert (one["key"], one["places"][1]) == ("acme", {"run": "order-2", "step": "price:1"})
