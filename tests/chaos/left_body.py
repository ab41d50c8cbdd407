"""A run that returns while a thread of it still works, and its worker process.

Run as a module: ``python -m tests.chaos.left_body URL``. Each body is noted in the ledger; the thread never ends.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading

from holdfast import App, current, step, workflow
from tests.support.ledger import append

LEDGER = "HOLDFAST_TEST_LEDGER"
FOREVER = threading.Event()


def note() -> None:
    append(os.environ[LEDGER], f"{current().run_id} {current().key}")


@step
def slow() -> str:
    note()
    FOREVER.wait()
    return "slow"


@step
async def charge() -> str:
    note()
    return "paid"


@workflow
async def pay() -> str:
    racing = [asyncio.ensure_future(asyncio.to_thread(slow)), asyncio.ensure_future(charge())]
    done, _ = await asyncio.wait(racing, return_when=asyncio.FIRST_COMPLETED)
    return done.pop().result()


async def main() -> None:
    app = App(sys.argv[1], workflows=[pay])
    async with app.worker(id="w1", poll="100ms"):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
