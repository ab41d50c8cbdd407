"""`holdfast workers`."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.cli.commands.workers import _state, _up  # pyright: ignore[reportPrivateUsage]
from holdfast.ports.leases import WorkerRow
from tests.unit.cli.conftest import Cli


def test_workers_are_listed_with_what_they_serve(cli: Cli) -> None:
    """Contract: live ones, with --all also those that have gone; in a pipe one tab-separated line each."""
    cli.start("hello", "name=x", "--id", "r")

    async def look() -> tuple[str, Any]:
        async with cli.app.worker(id="w1", queues=["default", "slow"]):
            plain = await asyncio.to_thread(cli.ok, "workers")
            return plain, json.loads(await asyncio.to_thread(cli.ok, "workers", "--json"))

    line, shown = asyncio.run(look())
    worker, state, _, queues, _, pid, _, serves = line.rstrip("\n").split("\t")
    assert (worker, state, queues) == ("w1", "live", "default,slow")
    assert serves == "approval, fails, hello, parent, payment, priced 2"
    assert shown["pid"] == int(pid)
    assert cli.ok("workers") == ""
    assert cli.ok("workers", "--all").split("\t")[1] == "gone"


def test_a_worker_that_has_gone_is_not_up() -> None:
    """Promise: how long it has been up is said of live workers only; of the others, when they were last heard of."""
    began = datetime(2026, 1, 1, tzinfo=UTC)
    now = began + timedelta(hours=5)

    def row(*, is_live: bool, seen_at: datetime | None) -> WorkerRow:
        return WorkerRow(instance="i", worker="w", queues=(), definitions=(), pid=1, host="here", started_at=began,
                         is_live=is_live, seen_at=seen_at)  # fmt: skip

    live, gone = row(is_live=True, seen_at=now), row(is_live=False, seen_at=now - timedelta(hours=4))
    assert (_state(live, now), _up(live, now)) == (("live", "green"), "5 h")
    assert (_state(gone, now), _up(gone, now)) == (("gone, seen 4 h ago", "yellow"), "-")
    assert _state(row(is_live=False, seen_at=None), now) == ("gone", "yellow")
