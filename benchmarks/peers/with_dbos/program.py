"""The same smallest workflows, written for DBOS."""

from __future__ import annotations

import asyncio
import os
import time

from dbos import DBOS

from benchmarks.process import BLOCK, Gate

QUEUE = "bench"


@DBOS.step()
async def work(n: int) -> dict[str, int]:
    return {"n": n}


@DBOS.step()
async def gated(n: int) -> dict[str, int]:
    """Ends at once, except in a process that was told to block here."""
    Gate.entered += 1
    Gate.reached_at = time.monotonic()
    if os.environ.get(BLOCK):
        await asyncio.Event().wait()
    return {"n": n}


@DBOS.workflow()
async def one(n: int) -> dict[str, int]:
    return await work(n)


@DBOS.workflow()
async def many(steps: int) -> int:
    for n in range(steps):
        await work(n)
    return steps


@DBOS.workflow()
async def blocked(steps: int, at: int) -> int:
    """Like `many`, with a gate at one place."""
    Gate.body_entered_at = time.monotonic()
    for n in range(1, steps + 1):
        await (gated(n) if n == at else work(n))
    Gate.ended += 1
    return steps


@DBOS.workflow()
async def parked() -> None:
    Gate.entered += 1
    await DBOS.sleep_async(3600)


def launch(url: str) -> None:
    """DBOS with its defaults on that database; only its log is kept down."""
    DBOS(
        config={
            "name": "bench",
            "system_database_url": url,
            "log_level": "ERROR",
            "application_version": "1",
            "executor_id": "bench",
        }
    )
    DBOS.launch()


async def through(n: int) -> None:
    """One run of one step, without a queue."""
    await (await DBOS.start_workflow_async(one, n)).get_result()


async def through_queue(n: int) -> None:
    """The same through a queue with its default polling."""
    await (await DBOS.enqueue_workflow_async(QUEUE, one, n)).get_result()


async def many_through(steps: int) -> None:
    """One run of many steps."""
    await (await DBOS.start_workflow_async(many, steps)).get_result()
