"""`holdfast schedules`."""

from __future__ import annotations

import asyncio
import json

import pytest

from holdfast import Schedule, workflow
from tests.unit.cli.conftest import Cli


@workflow
async def hello(name: str) -> str:
    return name


def make(cli: Cli) -> None:
    async def put() -> None:
        async with cli.app as app:
            await app.schedule(Schedule("nightly", hello("x"), cron="0 3 * * *", tz="Europe/Berlin", overlap="allow"))

    asyncio.run(put())


def test_schedules_are_listed_and_acted_upon(cli: Cli, caplog: pytest.LogCaptureFixture) -> None:
    """Contract: a line each with state, slots and words; pause with a reason, resume, trigger, backfill, remove. Who
    did it is recorded."""
    make(cli)
    name, state, following, last, missed, _, served, words = cli.ok("schedules").rstrip("\n").split("\t")
    assert (name, state, last, missed, served) == ("nightly", "active", "", "0", "hello")
    assert words == "At 03:00 every day (Europe/Berlin)"
    assert following.endswith(":00:00.000Z")
    assert json.loads(cli.ok("schedules", "--json"))["next"] == following
    with caplog.at_level("INFO", "holdfast.audit"):
        paused = cli.ok("schedules", "pause", "nightly", "--reason", "stock-taking", "--as", "ann")
    assert "paused: stock-taking" in paused
    assert "ann: schedules pause (nightly)" in caplog.messages
    assert cli.ok("schedules", "list").split("\t")[1] == "paused: stock-taking"
    assert f"active, next {following}" in cli.ok("schedules", "resume", "nightly")
    run = cli.ok("schedules", "trigger", "nightly").strip()
    assert run.startswith("nightly@trigger:")
    assert cli.ok("schedules", "trigger", "nightly", "--id", "mail-17") == "nightly@trigger:mail-17\n"
    assert cli.ok("schedules", "trigger", "nightly", "--id", "mail-17") == "nightly@trigger:mail-17\n"
    filled = cli.ok("schedules", "backfill", "nightly", "--since", "2026-01-01T00:00Z", "--until", "2026-01-03T00:00Z")
    assert [line.split("\t")[:2] for line in filled.splitlines()] == [
        ["2026-01-01T02:00:00.000Z", "started"],
        ["2026-01-02T02:00:00.000Z", "started"],
    ]
    assert len(cli.ok("runs").splitlines()) == 4
    assert cli.ok("schedules", "remove", "nightly") == "schedule nightly removed\n"
    assert cli.ok("schedules") == ""


def test_what_is_wrong_is_said(cli: Cli) -> None:
    """Contract: an unknown schedule and a range with too many slots end with 1 and one sentence; nothing is started."""
    make(cli)
    assert "no schedule 'weekly'" in cli("schedules", "trigger", "weekly").error
    many = cli("schedules", "backfill", "nightly", "--since", "2020-01-01T00:00Z", "--most", "10")
    assert "more than 10 slots" in many.error
    assert cli.ok("runs") == ""
