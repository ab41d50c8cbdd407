"""`holdfast workers`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

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
