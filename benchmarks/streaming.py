"""Streams: what one step can send, how many can read it, and what that writes.

Run it by itself: `python -m benchmarks.streaming [URL] [--seconds 5] [--rate 1000] [--readers 200]`. Without a URL: a
SQLite file in a temporary folder. It prints parts per second from the step to the readers, the delay between send and
receipt, appends (transactions that write parts) and looks of the readers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.raw import percentile
from holdfast import App, Run, Stream, step, workflow
from holdfast.app import open_store
from holdfast.ports.store import Store

ticks = Stream[float]("ticks")
"""Each part is the time at which it was sent."""


@step
async def tick(rate: int, seconds: float) -> int:
    """Sends at that rate."""
    began = time.perf_counter()
    sent = 0
    while (past := time.perf_counter() - began) < seconds:
        for _ in range(int(past * rate) - sent):
            ticks.send(time.perf_counter())
            sent += 1
        await asyncio.sleep(0.005)
    return sent


@workflow
async def ticking(rate: int, seconds: float) -> int:
    """One step that streams."""
    return await tick(rate, seconds)


class Counted:
    """A store that counts its calls."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in {"append", "read_parts", "stream_ends", "commit"}:
            return found

        def call(*args: Any, **named: Any) -> Any:
            self.calls[name] += 1
            return found(*args, **named)

        return call


async def _read(run: Run[int], delays: list[float]) -> int:
    count = 0
    async for part in run.read(ticks):
        assert part.offset == count
        count += 1
        delays.append(time.perf_counter() - part.value)
    return count


async def measured(url: str, rate: int, seconds: float, readers: int) -> dict[str, float]:
    """The figures of one run."""
    store = Counted(await open_store(url))
    app = App(workflows=[ticking], store=store)
    async with app.worker():
        run = await app.start(ticking(rate, seconds))
        delays: list[float] = []
        began = time.perf_counter()
        counts = await asyncio.gather(*(_read(run, delays) for _ in range(readers)))
        took = time.perf_counter() - began
        sent = await run.result()
    assert set(counts) == {sent}, "every reader has every part"
    await app.close()
    return {
        "parts": sent,
        "parts/s sent": sent / seconds,
        "parts/s received by all": sum(counts) / took,
        "delay p50 ms": percentile(delays, 50) * 1e3,
        "delay p95 ms": percentile(delays, 95) * 1e3,
        "appends": store.calls["append"],
        "appends/s": store.calls["append"] / seconds,
        "looks": store.calls["stream_ends"],
        "pages": store.calls["read_parts"],
    }


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url", nargs="?", default="")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--readers", type=int, default=200)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = given.url or f"sqlite:///{Path(folder) / 'streams.db'}"
        found = asyncio.run(measured(url, given.rate, given.seconds, given.readers))
    print(json.dumps({name: round(value, 1) for name, value in found.items()}, indent=1))


if __name__ == "__main__":
    main()
