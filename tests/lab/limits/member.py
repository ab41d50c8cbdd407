"""A worker with limited steps in a process of its own, to be killed.

    python -m tests.lab.limits.member URL LEDGER NAME [TTL]

Every body leaves a line in the ledger when it begins and when it ends: time, what, run, key.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time

from holdfast import App, Limit, current, step, workflow
from tests.support.ledger import append

RATE, BURST, AT_ONCE = 50, 10, 5
CUSTOMERS = 4

api = Limit("api", rate=f"{RATE}/s", burst=BURST)
customer = Limit("customer", at_once=AT_ONCE)
ledger = ""


def note(what: str, key: str) -> None:
    """Appends a line."""
    append(ledger, f"{time.time():.6f} {what} {current().run_id} {key}")


@step(limits=[api, customer.by("name")])
async def call(number: int, name: str) -> int:
    note("begin", name)
    await asyncio.sleep(0.01)
    note("end", name)
    return number


@workflow
async def job(number: int) -> int:
    return await call(number, f"customer-{number % CUSTOMERS}")


async def main(url: str, name: str, ttl: str) -> None:
    """Works until it is told to stop, or killed."""
    app = App(url, workflows=[job])
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with app.worker(id=name, poll="50ms", ttl=ttl, concurrency=50):
        await stopped.wait()


if __name__ == "__main__":
    ledger = sys.argv[2]
    asyncio.run(main(sys.argv[1], sys.argv[3], sys.argv[4] if len(sys.argv) > 4 else "2s"))
