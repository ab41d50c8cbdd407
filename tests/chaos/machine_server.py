"""Runs of one machine, each in a process of its own that may be killed inside a state.

Started once, it imports everything and then forks for each line of JSON it reads: the child runs, resumes or serves a
run and kills itself where it is told to; the answer says how it ended. Nothing durable is opened before the fork.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.file_log import FileLog
from holdfast import App, CompensationFailed, Join, Machine, More, Retry, RunFailed, StateFailed
from tests.chaos.forks import serve
from tests.support.ledger import append
from tests.support.zygote import load

ENDED, FAILED, DIRTY = 0, 3, 4
GOES_BACK = {"undo Pay", "undo Reserve"}


@dataclass
class Order:
    """What the test asks of one process."""

    ledger: str = ""
    run: str = ""
    crash: str = ""
    fail: str = ""


order = Order()


def act(what: str, *, before: bool = False) -> None:
    """The effect of a body, in a file outside of everything; the process may end right after (or before) it."""
    crash = order.crash == what
    if crash and before:
        os.kill(os.getpid(), signal.SIGKILL)
    append(order.ledger, f"{order.run}|{what}")
    if crash:
        os.kill(os.getpid(), signal.SIGKILL)
    if order.fail == what:
        raise RuntimeError(what)


@dataclass
class Reserve:
    cents: int


@dataclass
class Route:
    cents: int


@dataclass
class Quote:
    cents: int


@dataclass
class Choose:
    quotes: list[int]


@dataclass
class Pack:
    cents: int


@dataclass
class Pay:
    cents: int


@dataclass
class Label:
    payment: str


@dataclass
class Ship:
    label: str


@dataclass
class Notify:
    label: str


@dataclass
class Delivered:
    label: str


parcel = Machine[Reserve, Delivered]("parcel", retry=Retry.none)


@parcel.state
async def reserve(s: Reserve) -> Route:
    act("Reserve")
    return Route(s.cents)


@reserve.undo
async def release(left: Route, s: Reserve) -> None:
    act("undo Reserve", before=True)


@parcel.router
def route(s: Route) -> Quote | Label:
    act("Route")
    return Quote(s.cents) if s.cents else Label("free")


async def dhl(s: Quote) -> int:
    act("dhl")
    return 500


async def ups(s: Quote) -> int:
    await asyncio.sleep(0)
    return 450


@parcel.split(dhl, ups, join=Join.all())
async def quote(s: Quote, found: list[int]) -> Choose:
    return Choose(found)


@parcel.state
async def choose(s: Choose) -> Pack:
    act("Choose")
    return Pack(min(s.quotes))


@parcel.stepped
async def pack(s: Pack, cursor: int | None) -> More[int] | Pay:
    at = cursor or 0
    act(f"Pack{at}")
    return More(at + 1) if at < 2 else Pay(s.cents)


@parcel.state
async def pay(s: Pay) -> Label:
    act("Pay")
    return Label(f"pay-{s.cents}")


@pay.undo
async def refund(left: Label, s: Pay) -> None:
    act("undo Pay", before=True)


@parcel.state
async def label(s: Label) -> Ship:
    act("Label")
    return Ship(f"#{s.payment}")


@parcel.state
async def ship(s: Ship) -> Notify:
    act("Ship")
    return Notify(s.label)


@parcel.state
async def notify(s: Notify) -> Delivered:
    act("Notify")
    return Delivered(s.label)


async def standalone(store: Any, run: str) -> Any:
    """Begins the run, or goes on with it if it has a log."""
    loaded = store.load(run)
    rows = await loaded if asyncio.iscoroutine(loaded) else loaded
    if rows:
        return await parcel.resume(run, store=store)
    return await parcel.run(Reserve(7), store=store, id=run)


async def work(kind: str, where: str, run: str) -> None:
    """One process' share of the run."""
    if kind == "file":
        await standalone(FileLog(where), run)
        return
    app = App(where, workflows=[parcel])
    if kind == "log":
        async with app:
            await standalone(app.logs(), run)
        return
    async with app.worker(id="w", poll="20ms"):
        await (await app.start(parcel(Reserve(7)), id=run)).result("60s")


def child(task: dict[str, str]) -> int:
    """What one process does."""
    order.ledger, order.run = task["ledger"], task["run"]
    order.crash, order.fail = task.get("crash", ""), task.get("fail", "")
    try:
        asyncio.run(work(task["kind"], task["where"], task["run"]))
    except StateFailed:
        return FAILED
    except CompensationFailed:
        return DIRTY
    except RunFailed as error:
        return DIRTY if error.type == "CompensationFailed" else FAILED
    return ENDED


def main() -> None:
    """Forks for each line."""
    load()
    serve(child)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    main()
