"""A run that is asked something, and its worker process.

Run as a module: ``python -m tests.chaos.questioned URL``. Each body is noted in the ledger; the first one hangs.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from holdfast import App, Signal, Update, current, step, workflow
from tests.support.ledger import append

LEDGER = "HOLDFAST_TEST_LEDGER"
ask = Update[str, str]("ask")
close = Signal[bool]("close")


@step
async def look_up(text: str) -> str:
    is_first = not Path(os.environ[LEDGER]).read_text()  # noqa: ASYNC240 a small file
    append(os.environ[LEDGER], f"{current().run_id} {text} {current().attempt}")
    if is_first:
        await asyncio.Event().wait()
    return text.upper()


@workflow
async def desk() -> int:
    count = 0

    async def answer(text: str) -> str:
        nonlocal count
        count += 1
        return await look_up(text)

    ask.serve(answer)
    await close.wait()
    return count


async def main() -> None:
    app = App(sys.argv[1], workflows=[desk])
    async with app.worker(id="w1", poll="100ms"):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
