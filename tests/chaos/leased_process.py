"""A worker in a process of its own whose leases are granted by a manager outside the store.

Run as a module: ``python -m tests.chaos.leased_process URL ID LEDGER TYPE PREFIX TTL ON_LOSS ENDPOINT…``. Prints
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

from holdfast import App, current, step, workflow
from holdfast.config import Configuration, LeaseSettings, StoreSettings, UpkeepSettings

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


def leased_app(url: str, ledger: Path, kind: Any, prefix: str, ttl: float, on_loss: Any, *endpoints: str) -> App:
    """The app of such a worker."""
    LEDGER[:] = [ledger]
    leases = LeaseSettings(
        type=kind, prefix=prefix, ttl=timedelta(seconds=ttl), on_loss=on_loss, endpoints=tuple(endpoints)
    )
    config = Configuration(store=StoreSettings(url=url), leases=leases, upkeep=UpkeepSettings(snapshot_every=0))
    return App(url, workflows=[counted], config=config)


async def main(url: str, name: str, ledger: str, kind: str, prefix: str, ttl: str, on_loss: str, *at: str) -> None:
    app = leased_app(url, Path(ledger), kind, prefix, float(ttl), on_loss, *at)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with app.worker(id=name, poll=float(ttl) / 2, grace="0s"):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await stopped.wait()


if __name__ == "__main__":
    import logging

    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(message)s")
    asyncio.run(main(*sys.argv[1:]))
