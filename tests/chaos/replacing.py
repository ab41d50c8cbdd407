"""Runs that replace each other, and a process that works on them and starts the next ones until it is killed.

Run as a module: ``python -m tests.chaos.replacing URL``. The ledger says which run begins and which has cleaned up.
"""

from __future__ import annotations

import asyncio
import os
import sys

from holdfast import App, Signal, current, step, workflow
from tests.support.ledger import append

LEDGER = "HOLDFAST_TEST_LEDGER"
go = Signal[bool]("go")


@step
async def note(word: str) -> None:
    append(os.environ[LEDGER], f"{word} {current().run_id}")


@workflow
async def watch(number: int) -> int:
    try:
        await note("begins")
        await go.wait()
    except asyncio.CancelledError:
        await note("ends")
        raise
    return number


async def main() -> None:
    app = App(sys.argv[1], workflows=[watch])
    async with app.worker(id="w1", poll="100ms", ttl="2s"):
        for number in range(1_000_000):
            await app.start(watch(number), unique="u", if_exists="replace")
            await asyncio.sleep(0.001 * (number % 30))


if __name__ == "__main__":
    asyncio.run(main())
