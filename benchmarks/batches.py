"""`python -m benchmarks.batches [ITEMS] [URL…]`: a batch of items of three steps; items a second, and peak memory.

A process for each store, with its worker in it, so that the memory is that of one batch. Without an address: a SQLite
file with full durability.
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import tempfile
import time

from holdfast import App, step, workflow

CONCURRENCY = 100


@step
async def first(number: int) -> int:
    return number + 1


@step
async def second(number: int) -> int:
    return number * 2


@step
async def third(number: int) -> int:
    return number - 1


@workflow
async def item(number: int) -> int:
    return await third(await second(await first(number)))


def peak() -> float:
    """Megabytes this process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def measure(url: str, count: int) -> None:
    """One batch, read as it completes, every result checked."""
    app = App(url, workflows=[item])
    async with app.worker(concurrency=2 * CONCURRENCY):
        before, at = peak(), time.perf_counter()
        batch = await app.start_batch(item, range(count), concurrency=CONCURRENCY)
        started = time.perf_counter() - at
        seen = 0
        async for each in batch.items(order="completion"):
            assert each.value() == (each.index + 1) * 2 - 1
            seen += 1
        took = time.perf_counter() - at
        assert seen == count == (await batch.result("1m")).completed
    kind = url.partition(":")[0]
    sys.stdout.write(
        f"{kind}: {count} items of 3 steps in {took:.0f} s, {count / took:.0f} items/s ({3 * count / took:.0f} steps), "
        f"inputs written in {started:.2f} s; peak memory {peak():.0f} MB, {peak() - before:.0f} MB of it the batch's\n"
    )


def main(words: list[str]) -> None:
    """Each address in a process of its own."""
    count = int(words[0]) if words else 10_000
    if len(words) == 2:
        asyncio.run(measure(words[1], count))
        return
    with tempfile.TemporaryDirectory() as folder:
        for url in words[1:] or [f"sqlite:///{folder}/batch.db"]:
            subprocess.run([sys.executable, "-m", "benchmarks.batches", str(count), url], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
