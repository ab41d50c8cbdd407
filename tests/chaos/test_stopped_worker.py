"""A worker that is stopped (SIGSTOP) for longer than its lease, and wakes up after others have done its work."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from tests.chaos import orders
from tests.chaos.stage import Stage, end, until

TTL = 1.5


async def test_a_woken_worker_commits_nothing_more_and_keeps_working(tmp_path: Path) -> None:
    """Promise: while a worker is stopped past its lease another finishes its run; woken up, the first one commits
    nothing more for that run, says so, and serves the next run."""
    stage = Stage(tmp_path)
    gate = tmp_path / "gate"
    os.environ[orders.GATE] = str(gate)
    try:
        await stage.start()
        first = stage.worker("first", ttl=TTL)
        await until(lambda: any(entry[2] == "reserve" for entry in stage.entries()), "the first worker began")
        os.kill(first.pid, signal.SIGSTOP)
        gate.touch()
        second = stage.worker("second", ttl=TTL)
        assert await stage.result() == orders.EXPECTED
        journal = await stage.journal("order-1")
        await asyncio.to_thread(end, second)
        os.kill(first.pid, signal.SIGCONT)
        with stage.app() as app:
            async with app:
                run = await app.start(orders.fulfil("o1"), id="order-2")
                await run.signal(orders.approved, True)
                assert await run.result(timeout=60) == orders.EXPECTED
        assert await stage.journal("order-1") == journal, "the woken worker changed a run it had lost"
        log = await asyncio.to_thread(end, first)
        assert "dropped" in log, log
        assert {entry[4] for entry in stage.entries() if entry[1] == "order-2"} == {str(first.pid)}
        await stage.check()
    finally:
        del os.environ[orders.GATE]
