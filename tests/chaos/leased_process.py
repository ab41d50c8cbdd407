"""A worker in a process of its own whose leases are granted by a manager outside the store.

Run as a module: ``python -m tests.chaos.leased_process URL ID LEDGER TYPE PREFIX TTL POLL ENDPOINT…``. Prints
``ready`` when it serves, and serves until SIGTERM. Each body notes in the ledger that it has begun; the first of a run
that is called `held-…` waits there.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

import holdfast.app
from holdfast import App, current, step, workflow
from holdfast.config import Configuration, LeaseSettings, StoreSettings, UpkeepSettings
from holdfast.worker.worker_options import WorkerOptions, worker_options

LEDGER: list[Path] = []


@step
async def noted(number: int) -> int:
    at = current()
    line = f"{at.run_id} {number} {at.attempt} {os.getpid()} {time.time():.4f}\n"
    handle = os.open(LEDGER[0], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(handle, line.encode())
    os.close(handle)
    if at.run_id.startswith("held-") and (number, at.attempt) == (0, 1):
        await asyncio.sleep(600)
    return number


@workflow
async def counted(steps: int) -> int:
    total = 0
    for number in range(steps):
        total += await noted(number)
    return total


def leased_app(url: str, ledger: Path, kind: Any, prefix: str, ttl: float, *endpoints: str) -> App:
    """The app of such a worker."""
    LEDGER[:] = [ledger]
    leases = LeaseSettings(
        type=kind,
        prefix=prefix,
        ttl=timedelta(seconds=ttl),
        endpoints=tuple(endpoints),
        replicas=3 if kind == "nats" else 1,
    )
    config = Configuration(store=StoreSettings(url=url), leases=leases, upkeep=UpkeepSettings(snapshot_every=0))
    return App(url, workflows=[counted], config=config)


def poll_every(seconds: float) -> None:
    """Workers of this process look for work by themselves so rarely, which their options would refuse."""

    def slower(**given: Any) -> WorkerOptions:
        return msgspec.structs.replace(worker_options(**given), poll=timedelta(seconds=seconds))

    setattr(holdfast.app, "worker_options", slower)  # noqa: B010 - the types of the two differ


async def main(url: str, name: str, ledger: str, kind: str, prefix: str, ttl: str, poll: str, *at: str) -> None:
    app = leased_app(url, Path(ledger), kind, prefix, float(ttl), *at)
    poll_every(float(poll))
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with app.worker(id=name, grace="0s"):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await stopped.wait()


if __name__ == "__main__":
    import logging

    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(message)s")
    asyncio.run(main(*sys.argv[1:]))
