"""What other processes do in these tests. Run as `python programs.py NAME PATH …`; each line printed is a fact.

A line is printed only after the store has answered, so what a reader has seen was acknowledged.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

import msgspec

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.sqlite import SqliteStore, open_sqlite
from holdfast.core import events as e
from holdfast.errors import DiskFull, StoreError
from holdfast.testing.conformance.world import START, World


def say(*words: object) -> None:
    print(*words, flush=True)  # noqa: T201 - it is how this process speaks to the test


async def opened(path: str) -> tuple[SqliteStore, World]:
    clock = VirtualClock(START)
    store = await open_sqlite(path, clock=clock)
    return store, World(store, clock)


async def open_and_close(path: str) -> None:
    """Waits for its turn, then opens the store."""
    say("waiting")
    sys.stdin.readline()
    store, _ = await opened(path)
    say("opened")
    await store.close()


async def commit_for_ever(path: str, run: str) -> None:
    """Turn after turn of one run, each ordinal printed once it is durable."""
    _, world = await opened(path)
    holder = await world.held_run(run, instance=run)
    say("waiting")
    sys.stdin.readline()
    while True:
        await holder.commits(step_done(holder.run.ordinal))
        say(holder.run.ordinal)


def step_done(number: int) -> e.StepCompleted:
    return e.StepCompleted(key=f"charge:{number}", value=msgspec.Raw(b'{"ok":true,"payment":"p-000000000001"}'))


async def fill_the_disk(path: str) -> None:
    """Meets a limit on the size of files, is told so, and goes on once it is lifted."""
    store, world = await opened(path)
    holder = await world.held_run("order-1")
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, hard))  # the log alone has 20 kB by now
    try:
        while True:
            await holder.commits(e.StepCompleted(key="big", value=msgspec.Raw(b'"' + b"x" * 20_000 + b'"')))
    except DiskFull:
        say("full")
    row = await world.get("order-1")
    say("kept" if row.next_ordinal == holder.run.ordinal + 1 else "torn")
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await holder.commits(e.StepCompleted(key="big", value=msgspec.Raw(b'"' + b"x" * 20_000 + b'"')))
    await world.verify()
    say("went on")
    await store.close()


def fork(path: str) -> None:
    """A forked child tries to use the store of its parent, ends as any program does, and harms nothing."""
    runner = asyncio.Runner()
    store, world = runner.run(opened(path))
    holder = runner.run(world.held_run("order-1"))
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(store.get("order-1"))
        except StoreError as error:
            say(type(error).__name__, error)
        sys.exit(0)
    os.waitpid(child, 0)
    for number in range(20):
        runner.run(holder.commits(step_done(number)))
    runner.run(world.verify())
    say("parent went on")
    runner.run(store.close())
    runner.close()


async def hold_and_wait(path: str) -> None:
    """Registers with its own pid, claims a run, and waits to be killed."""
    _, world = await opened(path)
    worker = await world.worker("i1", "w1", pid=os.getpid())
    await world.make("order-1")
    say(*[run.id for run in (await world.claim(worker)).runs])
    sys.stdin.readline()


async def beat_for_ever(path: str, instance: str) -> None:
    """Heartbeats in a row, each printed."""
    store, world = await opened(path)
    await world.worker(instance)
    heart = store.heart(instance, timedelta(seconds=15))
    say("waiting")
    sys.stdin.readline()
    while True:
        heart.beat()
        say("beat")


PROGRAMS: dict[str, Callable[..., Coroutine[Any, Any, None] | None]] = {
    program.__name__: program
    for program in (open_and_close, commit_for_ever, fill_the_disk, fork, hold_and_wait, beat_for_ever)
}

if __name__ == "__main__":
    work = PROGRAMS[sys.argv[1]](*sys.argv[2:])
    if work is not None:
        asyncio.run(work)
