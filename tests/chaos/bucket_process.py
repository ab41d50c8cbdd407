"""A worker whose large payloads are in S3, in a process of its own, to be killed.

``python -m tests.chaos.bucket_process URL BLOBS LEDGER EVERY``. With EVERY above 0 it kills itself where it hurts most:
each so many uploads, when the bytes are in the bucket and the store has not heard of them. It notes that in the ledger.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256

from holdfast import App, current, step, workflow
from holdfast.adapters.s3 import S3Home
from tests.support.ledger import append


def payload(number: int, attempt: int, size: int) -> str:
    """Text of that many characters, different for each number and attempt: what a killed attempt uploaded is of
    no use to the next one."""
    block = sha256(f"{number} {attempt}".encode()).hexdigest()
    return (block * (size // len(block) + 1))[:size]


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


@step
async def made(number: int, size: int) -> str:
    return payload(number, current().attempt, size)


@step
async def measured(text: str) -> str:
    return digest(text)


@workflow
async def stored(number: int, size: int) -> str:
    """Written by one step, read by the next one: after a kill from the bucket."""
    return await measured(await made(number, size))


def bucket_app(url: str, blobs: str) -> App:
    """The app of such a worker."""
    return App(url, workflows=[stored], blobs=blobs)


def die_after_uploads(every: int, ledger: str) -> None:
    """Patches this process, see the module. Starts at a place of its own, so that not all die at the same upload."""
    put, count = S3Home.put, os.getpid() % every

    async def upload(home: S3Home, blobs: Sequence[tuple[str, bytes]], at: datetime) -> None:
        nonlocal count
        await put(home, blobs, at)
        count += 1
        if count % every == 0:
            append(ledger, "killed between upload and commit")
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(S3Home, "put", upload)  # noqa: B010 - the types of the two differ


async def main(url: str, blobs: str, ledger: str, every: str) -> None:
    if int(every):
        die_after_uploads(int(every), ledger)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with bucket_app(url, blobs).worker(ttl="3s", poll="200ms", concurrency=8, grace="0s"):
        await stopped.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
