"""A worker process: `python -m benchmarks.serving URL ID CONCURRENCY TTL [BLOCKED]`.

Says `ready`, and `blocked` once that many runs wait at their gate. Ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import sys

from benchmarks.process import Gate, say
from benchmarks.program import app_at


async def serve(url: str, name: str, concurrency: int, ttl: float, expected: int) -> None:
    """Works until no reader is left."""
    async with app_at(url).worker(id=name, concurrency=concurrency, ttl=ttl, poll=min(1.0, ttl / 3)):
        say(ready=True)
        gone = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        while expected and Gate.entered < expected and not gone.done():  # noqa: ASYNC110 as in `resuming`
            await asyncio.sleep(0.01)
        if expected:
            say(blocked=Gate.entered)
        await gone


if __name__ == "__main__":
    url, name, concurrency, ttl, *rest = sys.argv[1:]
    asyncio.run(serve(url, name, int(concurrency), float(ttl), int(rest[0]) if rest else 0))
