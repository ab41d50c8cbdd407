"""A step that streams, slowly, and its worker process: ``python -m tests.chaos.streaming_process URL``."""

from __future__ import annotations

import asyncio
import sys

from holdfast import App, Retry, Stream, step, workflow

PARTS = 60
tokens = Stream[int]("tokens")


@step(retry=Retry(20, first="1ms"))
async def count() -> int:
    for number in range(PARTS):
        tokens.send(number)
        await asyncio.sleep(0.01)
    return PARTS


@workflow
async def counting() -> int:
    tokens.send(-1)
    done = await count()
    tokens.send(-2)
    return done


async def main() -> None:
    app = App(sys.argv[1], workflows=[counting])
    async with app.worker(id="w1", poll="100ms"):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
