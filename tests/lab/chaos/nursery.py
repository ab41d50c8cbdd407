"""Worker processes that are born in a few milliseconds: one process imports everything and then only forks.

It holds no thread and opens no store, so a fork of it is as good as a new process. Run as a module it reads one order a
line, and says of each worker that it was `born`, is `ready`, or `failed`. It ends with its standard input, and its
workers end with it.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO

import msgspec

from holdfast import App
from holdfast.adapters import postgres, sqlite
from holdfast.adapters.system.clock import SystemClock
from holdfast.app import open_store
from holdfast.errors import StoreError
from holdfast.ports.store import Store
from tests.lab.chaos import work

ROOT = Path(__file__).resolve().parents[3]
PR_SET_PDEATHSIG = 1
PATIENCE = 60.0
PRELOADED = (postgres, sqlite)
"""Adapters are imported where they are chosen; here they are imported before there is a choice."""


class Order(msgspec.Struct, frozen=True):
    """A worker to be born. `shift`: by how many seconds its wall clock is wrong."""

    name: str
    url: str
    ttl: float
    poll: float
    shift: float = 0.0


def shift_clock(seconds: float) -> None:
    """This process lives on a host whose wall clock is wrong by that much."""
    right, usual = SystemClock.now, time.time

    def now(clock: SystemClock) -> datetime:
        return right(clock) + timedelta(seconds=seconds)

    SystemClock.now = now  # type: ignore[assignment]
    time.time = lambda: usual() + seconds


async def opened(url: str) -> Store:
    """The store, as soon as it answers."""
    limit = time.monotonic() + PATIENCE
    while True:
        try:
            return await open_store(url)
        except StoreError:
            if time.monotonic() > limit:
                raise
            await asyncio.sleep(0.05)


async def serve(order: Order) -> None:
    """A worker, until SIGTERM."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    store = await opened(order.url)
    work.spy_on(store)
    app = App(store=store, workflows=[work.errand, work.poison, work.beat])
    async with app.worker(id=order.name, ttl=order.ttl, poll=order.poll, concurrency=8, grace="5s"):
        say(f"ready {order.name} {os.getpid()}")
        await stopped.wait()
    await store.close()


def say(line: str) -> None:
    """One line to the driver, whole."""
    os.write(1, f"{line}\n".encode())


def live(order: Order) -> None:
    """The life of a worker process; never returns."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.close(0)
    code = 1
    try:
        if order.shift:
            shift_clock(order.shift)
        asyncio.run(serve(order))
        code = 0
    except BaseException as error:  # noqa: BLE001 whatever it was, the driver is to hear of it
        say(f"failed {order.name} {os.getpid()} {type(error).__name__}: {' '.join(str(error).split())}")
    finally:
        os._exit(code)


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them: the kernel forgets them at once
    for line in sys.stdin:
        order = msgspec.json.decode(line, type=Order)
        if os.fork() == 0:
            live(order)


class Nursery:
    """The driver's end."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.failures: list[str] = []
        """Of workers that ended by themselves."""
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.lab.chaos.nursery"],
            cwd=ROOT,
            env={**os.environ, **environment, "PYTHONPATH": paths},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._ready: dict[str, int] = {}
        self._listening: asyncio.Task[None] | None = None

    async def bear(self, order: Order) -> int:
        """A worker that serves; its pid."""
        if self._listening is None:
            self._listening = asyncio.ensure_future(self._listen(_pipe(self._process.stdout)))
        self._ready.pop(order.name, None)
        into = _pipe(self._process.stdin)
        into.write(msgspec.json.encode(order).decode() + "\n")
        into.flush()
        async with asyncio.timeout(PATIENCE):
            while order.name not in self._ready:  # noqa: ASYNC110 other processes say so
                await asyncio.sleep(0.005)
        return self._ready[order.name]

    async def _listen(self, said: IO[str]) -> None:
        while line := await asyncio.to_thread(said.readline):
            what, name, pid, *rest = line.split()
            if what == "ready":
                self._ready[name] = int(pid)
            else:
                self.failures.append(f"worker {name}: {' '.join(rest)}")

    async def close(self) -> None:
        """Ends it, and every worker that is left."""
        _pipe(self._process.stdin).close()
        self._process.terminate()
        await asyncio.to_thread(self._process.wait)
        if self._listening is not None:
            await self._listening
        _pipe(self._process.stdout).close()


def _pipe(end: IO[str] | None) -> IO[str]:
    assert end is not None
    return end


def is_alive(pid: int) -> bool:
    """Whether that process is still there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    main()
