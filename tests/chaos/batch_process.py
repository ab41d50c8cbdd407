"""A worker for batches in a process of its own, to be killed: ``python -m tests.chaos.batch_process URL LEDGER``.

Every body leaves a line in the ledger, outside of everything, before it does anything else. Asked to stop (SIGTERM), it
prints how many kilobytes it had at most.
"""

from __future__ import annotations

import asyncio
import signal
import sys

from benchmarks.process import peak_bytes
from holdfast import App, current, step, workflow
from tests.support.ledger import append

ledger = ""


def note(number: int) -> None:
    here = current()
    append(ledger, f"{here.run_id} {here.step} {number}")


@step
async def first(number: int) -> int:
    note(number)
    return number + 1


@step
async def second(number: int) -> int:
    note(number)
    return number * 2


@step
async def third(number: int) -> int:
    note(number)
    return number - 1


@workflow
async def item(number: int) -> int:
    return await third(await second(await first(number)))


async def main(url: str) -> None:
    app = App(url, workflows=[item])
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with app.worker(id="w", poll="50ms", ttl="3s", concurrency=200):
        await stopped.wait()
    sys.stdout.write(f"{peak_bytes()}\n")


if __name__ == "__main__":
    ledger = sys.argv[2]
    asyncio.run(main(sys.argv[1]))
