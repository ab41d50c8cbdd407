"""The app that the tests of the command line run in processes of their own. It logs what it does to files."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path

from holdfast import App, Retry, RunVar, Signal, log, sleep, step, workflow

approved = Signal[bool]("approved")
progress = RunVar[str]("progress")
TRACES = Path(os.environ.get("CLI_APP_TRACES", "."))


class Refused(Exception):
    """A declared answer."""


@dataclass
class Order:
    id: str
    cents: int


@step
async def greet(name: str) -> str:
    log.info("greeting %s", name)
    return f"hello {name}"


@workflow
async def hello(name: str) -> str:
    return await greet(name)


@workflow
async def priced(order: Order, day: date = date(2026, 1, 1), factor: Decimal = Decimal(1), *, note: str = "") -> str:
    return f"{order.id} {order.cents * factor} {day} {note}"


@workflow
async def approval(name: str) -> str:
    """Logs before and after it waits: a second worker must not repeat the first line."""
    log.info("asking for %s", name)
    progress.set("asked")
    answer = await approved.wait()
    log.info("answered %s", name)
    return f"{name}: {answer}"


@step(retry=Retry(2, first="1ms"))
async def breaks(text: str) -> None:
    raise ValueError(text)


@workflow
async def fails(text: str) -> None:
    await breaks(text)


@workflow(raises=Refused)
async def refuses() -> None:
    raise Refused("not today")


@step
async def slow(release: str) -> int:
    """Goes on until its file is there."""
    while not (TRACES / release).exists():  # noqa: ASYNC110 another process makes it
        await asyncio.sleep(0.01)
    return os.getpid()


@workflow
async def handed_over(release: str) -> int:
    """The step ends in one worker; what follows happens wherever the run is then."""
    await slow(release)
    await sleep("30ms")
    return await slow(release)


@step
def stuck() -> None:
    """A thread that never ends."""
    threading.Event().wait()


@workflow
async def hangs() -> None:
    await asyncio.to_thread(stuck)


@step
async def blocks() -> None:
    """Blocks the event loop forever."""
    while True:
        signal.sigtimedwait([signal.SIGUSR1], 60)


@workflow
async def blocked() -> None:
    log.warning("about to block")
    await blocks()


@step(executor="process", retry=Retry.none)
def apart(release: str) -> int:
    """A process of its own that goes on until its file is there."""
    (TRACES / "begun").touch()
    while not (TRACES / release).exists():
        signal.sigtimedwait([signal.SIGUSR1], 0.01)
    return os.getpid()


@workflow
async def outside(release: str) -> int:
    return await asyncio.to_thread(apart, release)


@workflow
async def parent(name: str) -> str:
    return await hello(name)


@workflow
async def shouts(text: str) -> None:
    log.info(text)
    log.info("badly %d formatted", text, extra={"time": "mine", "odd": float("nan"), "what": {1: {2, 3}}})
    try:
        int(text)
    except ValueError:
        log.exception("caught")


app = App(workflows=[hello, priced, approval, fails, refuses, handed_over, hangs, blocked, outside, parent, shouts])
not_an_app = approval
