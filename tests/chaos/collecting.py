"""A process that collects numbers into runs, and works on them, until it is killed.

Run as a module: ``python -m tests.chaos.collecting URL``. The ledger says which numbers were given, and which loaded.
"""

from __future__ import annotations

import asyncio
import os
import sys

from holdfast import App, current, step, workflow
from tests.support.ledger import append

LEDGER = "HOLDFAST_TEST_LEDGER"


@step
async def store(numbers: list[str]) -> None:
    append(os.environ[LEDGER], f"loaded {current().run_id} {' '.join(numbers)}")


@workflow
async def load(numbers: list[str]) -> int:
    await store(numbers)
    return len(numbers)


async def main() -> None:
    app = App(sys.argv[1], workflows=[load])
    async with app.worker(id="w1", poll="50ms", ttl="2s"):
        for count in range(1_000_000):
            number = f"{os.getpid()}-{count}"
            run = await app.collect(load, number, into="numbers", within="100ms", most=7)
            append(os.environ[LEDGER], f"given {run.id} {number}")


if __name__ == "__main__":
    asyncio.run(main())
