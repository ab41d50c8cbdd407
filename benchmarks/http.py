"""What the HTTP API costs: answers among a million runs, two hundred open streams, and pages beside a busy worker.

`python3 dev.py bench --http [--store postgresql] [--runs 1000000]` prints a table. The server is the real one; its
clients share the process, so memory and processor time are those of both.
"""

from __future__ import annotations

import asyncio
import gc
import http.client
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles

from benchmarks.places import Place, placed
from benchmarks.process import Child, resident_bytes, say
from benchmarks.program import app_at, many, one
from benchmarks.throughput import finished
from holdfast.web.server import served
from holdfast.web.tokens import TokenFile

ASKED = 300
"""Requests of each kind."""

FIRST = 20
"""Different questions that no answer is kept for yet."""

STREAMS, PAGES, ROUNDS = 200, 20, 10
IDLE = 10.0
"""Seconds in which idle streams are watched."""

BUSY_RUNS, BUSY_STEPS = 500, 20


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table; `most` is the target, None where there is none."""

    what: str
    value: float
    unit: str
    most: float | None = None

    def __str__(self) -> str:
        target = (
            "" if self.most is None else f"  at most {self.most:g}" + ("" if self.value <= self.most else "  MISSED")
        )
        return f"{self.what:<58} {self.value:>10.2f} {self.unit:<14}{target}"


class Site:
    """A server of one store, and requests to it."""

    def __init__(self, port: int, secret: str) -> None:
        self._port = port
        self._headers = {"Authorization": f"Bearer {secret}", "Host": f"127.0.0.1:{port}"}

    def asked(self, path: str, times: int) -> list[float]:
        """Milliseconds of each of these requests, one after the other over one connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        taken: list[float] = []
        try:
            for _ in range(times):
                started = time.perf_counter()
                connection.request("GET", path, headers=self._headers)
                answer = connection.getresponse()
                body = answer.read()
                taken.append((time.perf_counter() - started) * 1e3)
                if answer.status != 200:
                    raise RuntimeError(f"{path}: {answer.status} {body[:200]!r}")
        finally:
            connection.close()
        return taken

    @asynccontextmanager
    async def stream(self, path: str) -> AsyncIterator[None]:
        """An open stream whose parts are read and dropped."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        head = "".join(f"{name}: {value}\r\n" for name, value in self._headers.items())
        writer.write(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode())
        status = await reader.readline()
        if b" 200 " not in status:
            raise RuntimeError(f"{path}: {status!r}")
        reading = asyncio.create_task(_drain(reader))
        try:
            yield
        finally:
            reading.cancel()
            writer.close()


async def _drain(reader: asyncio.StreamReader) -> None:
    while await reader.read(65536):
        pass


@asynccontextmanager
async def site_at(url: str, folder: Path) -> AsyncIterator[Site]:
    """The server of a store."""
    tokens = TokenFile(folder / "tokens.json")
    name = f"bench-{time.monotonic_ns()}"
    _, secret = tokens.add(name, "admin")
    async with app_at(url) as app, served(app, "127.0.0.1", 0, tokens) as serving:
        yield Site(serving.port, secret)


# -- what is measured ------------------------------------------------------------------------------------------------


async def answers(place: Place, folder: Path, runs: int) -> list[Figure]:
    """Lists, counts and one run among many."""
    url = place.url("many")
    async with app_at(url) as app, app.worker():
        run = await app.start(many(50))
        await run.result()
    async with app_at(url) as app:
        await app.start(one(0), id="pattern")
    place.multiply("many", runs)
    figures: list[Figure] = []
    async with site_at(url, folder) as site:
        paths = {
            "list of runs": "/api/v1/runs?limit=50",
            "list of one status": "/api/v1/runs?status=pending&limit=50",
            "list of one workflow": "/api/v1/runs?workflow=one&limit=50",
            "counts by status": "/api/v1/runs/counts",
            "histogram": "/api/v1/runs/histogram",
            "one run": f"/api/v1/runs/{run.id}",
            "story of one run": f"/api/v1/runs/{run.id}/story",
            "journal of one run": f"/api/v1/runs/{run.id}/journal",
        }
        for what, path in paths.items():
            await asyncio.to_thread(site.asked, path, 5)
            taken = await asyncio.to_thread(site.asked, path, ASKED)
            figures.append(Figure(f"{what}, p50", median(taken), "ms"))
            figures.append(Figure(f"{what}, p99", quantiles(taken, n=100)[98], "ms", 50))
        for what in ("counts by status", "histogram"):
            path, now = paths[what], time.time()
            first = [
                await asyncio.to_thread(site.asked, f"{path}?since={_instant(now - 86_000 - n)}", 1)
                for n in range(FIRST)
            ]
            taken = [one for [one] in first]
            figures.append(Figure(f"{what}, asked for the first time, p50", median(taken), "ms"))
            figures.append(Figure(f"{what}, asked for the first time, slowest", max(taken), "ms"))
    return figures


def _instant(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def idle_streams(place: Place, folder: Path) -> list[Figure]:
    """Memory and questions of open streams while nothing happens."""
    with place.counted() as counts:
        async with site_at(place.url("idle"), folder) as site, AsyncExitStack() as stack:
            for _ in range(STREAMS):
                await stack.enter_async_context(site.stream("/api/v1/runs/events"))
            await asyncio.sleep(1)
            before = _settled_bytes()
            with counts.during() as counted:
                await asyncio.sleep(IDLE)
            grown = (_settled_bytes() - before) / 1e6
            asked = counted["writes"] + counted.get("reads", 0)  # PostgreSQL counts every question as a write
    return [
        Figure(f"{STREAMS} idle streams: transactions and reads", asked / IDLE, "per second", 5),
        Figure(f"{STREAMS} idle streams: memory grown in {IDLE:g} s", grown, "MB", 5),
    ]


async def pages_beside_a_worker(place: Place, folder: Path) -> list[Figure]:
    """Processor time of a loaded worker's process with and without open pages, alternated."""
    url = place.url("busy")
    async with app_at(url):
        pass
    alone: list[float] = []
    watched: list[float] = []
    async with site_at(url, folder) as site:
        for _ in range(ROUNDS):
            alone.append(await asyncio.to_thread(_worker_cost, url))
            async with AsyncExitStack() as stack:
                for _ in range(PAGES):
                    await stack.enter_async_context(site.stream("/api/v1/runs/events"))
                watched.append(await asyncio.to_thread(_worker_cost, url))
    return [
        Figure("worker's processor time, no page open", median(alone), "ms per 1,000 steps"),
        Figure(f"worker's processor time, {PAGES} pages open", median(watched), "ms per 1,000 steps"),
        Figure("ratio of the medians", median(watched) / median(alone), "", 1.1),
    ]


def _worker_cost(url: str) -> float:
    with Child("http", "worker", url) as child:
        return float(child.line()["cost"])


async def _worker(url: str) -> None:
    async with app_at(url) as app, app.worker():
        await finished(app, [many(BUSY_STEPS)])
        started = time.process_time()
        await finished(app, [many(BUSY_STEPS) for _ in range(BUSY_RUNS)])
        say(cost=(time.process_time() - started) * 1e3 / (BUSY_RUNS * BUSY_STEPS) * 1e3)


def _settled_bytes() -> int:
    gc.collect()
    return resident_bytes()


def main(store: str, runs: int, out: Callable[[str], object] = print) -> int:
    """Measures everything and prints a table."""

    async def measured(place: Place, folder: Path) -> None:
        for figure in await answers(place, folder, runs):
            out(str(figure))
        for part in (idle_streams, pages_beside_a_worker):
            for figure in await part(place, folder):
                out(str(figure))

    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name, placed(store, Path(name)) as place:
        out(f"HTTP API on {store}, {runs:,} runs")
        asyncio.run(measured(place, Path(name)))
    return 0


if __name__ == "__main__" and sys.argv[1:2] == ["worker"]:
    asyncio.run(_worker(sys.argv[2]))
