"""The workflow of the fleet: a few steps, each noted in the ledger when it begins and ends; and its worker process.

Run as a module: ``python -m tests.chaos.jobs URL ID TTL POLL``. Prints ``ready`` when it serves.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time

from holdfast import App, current, step, workflow
from tests.support.ledger import append

LEDGER = "HOLDFAST_TEST_LEDGER"
KEYS = ("part", "part:1", "part:2", "part:3")
EXPECTED = list(range(len(KEYS)))


def note(what: str) -> None:
    """One line in the ledger, with the time of the clock that all processes of this host share."""
    here = current()
    line = f"{what} {here.run_id} {here.key} {here.attempt} {os.getpid()} {time.monotonic()}"
    append(os.environ[LEDGER], line)


@step
async def part(number: int) -> int:
    note("start")
    await asyncio.sleep(0.15)  # work
    note("end")
    return number


@workflow
async def job() -> list[int]:
    return [await part(number) for number in EXPECTED]


async def main() -> None:
    url, name, ttl, poll = sys.argv[1:]
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    app = App(url, workflows=[job])
    async with app.worker(id=name, ttl=float(ttl), poll=float(poll), concurrency=8, grace="5s"):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await stopped.wait()


if __name__ == "__main__":
    asyncio.run(main())
