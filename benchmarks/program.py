"""What is measured: the smallest workflows there can be. Step bodies return a small dict.

The names end in the colour of their code: nothing for async bodies, `_threaded` for an async workflow whose steps are
plain functions in threads, `_sync` for a plain workflow with plain steps.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from benchmarks.process import BLOCK, Gate
from holdfast import App, sleep, step, workflow
from holdfast.authoring.script.workflows import AnyWorkflow
from holdfast.config import Configuration


@step
async def work(n: int) -> dict[str, int]:
    return {"n": n}


@step(name="work_threaded")
def work_in_thread(n: int) -> dict[str, int]:
    return {"n": n}


@step
async def gated(n: int) -> dict[str, int]:
    """Ends at once, except in a process that was told to block here."""
    Gate.entered += 1
    Gate.reached_at = time.monotonic()
    if os.environ.get(BLOCK):
        await asyncio.Event().wait()
    return {"n": n}


@workflow
async def one(n: int) -> dict[str, int]:
    return await work(n)


@workflow
async def one_threaded(n: int) -> dict[str, int]:
    return await asyncio.to_thread(work_in_thread, n)


@workflow
def one_sync(n: int) -> dict[str, int]:
    return work_in_thread(n)


@workflow
async def many(steps: int) -> int:
    for n in range(steps):
        await work(n)
    return steps


@workflow
async def many_threaded(steps: int) -> int:
    for n in range(steps):
        await asyncio.to_thread(work_in_thread, n)
    return steps


@workflow
def many_sync(steps: int) -> int:
    for n in range(steps):
        work_in_thread(n)
    return steps


@workflow
async def blocked(steps: int, at: int) -> int:
    """Like `many`, with a gate at one place. Its one impurity, the note of when the body began, is never read by it."""
    Gate.body_entered_at = time.monotonic()
    for n in range(1, steps + 1):
        await (gated(n) if n == at else work(n))
    return steps


@workflow
async def parked() -> None:
    await sleep("1h")


@workflow
async def leaf(n: int) -> int:
    return n


@workflow
async def family(children: int) -> int:
    """A parent that waits for all its children at once."""
    return len(await asyncio.gather(*(leaf(n) for n in range(children))))


@workflow
async def wide(steps: int) -> int:
    """All its steps at once."""
    return len(await asyncio.gather(*(work(n) for n in range(steps))))


WORKFLOWS: tuple[AnyWorkflow[..., Any], ...] = (
    one,
    one_threaded,
    one_sync,
    many,
    many_threaded,
    many_sync,
    blocked,
    parked,
    leaf,
    family,
    wide,
)


def app_at(url: str, config: Configuration | None = None) -> App:
    """An app that serves all of them, without a limit of steps."""
    return App(url, workflows=WORKFLOWS, step_limit=None, config=config)
