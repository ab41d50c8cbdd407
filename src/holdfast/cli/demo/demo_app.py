"""The workflow of `holdfast demo`: an ordinary app, served by ordinary workers.

In a program of your own all these names come from `holdfast` itself: `from holdfast import App, Retry, step, …`.

Every body writes to a ledger: `begin` when it starts, `effect` at its side effect, `end` when it is left. The ledger is
a separate file, appended to with single writes, so it shows what really happened, whatever the journal says.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from holdfast.app import App
from holdfast.authoring.script.channels import Signal
from holdfast.authoring.script.steps import step
from holdfast.authoring.script.verbs import current, sleep
from holdfast.authoring.script.workflows import workflow
from holdfast.core.retry import Retry

LEDGER, PACE_VARIABLE = "DEMO_LEDGER", "DEMO_PACE"
PACE = float(os.environ.get(PACE_VARIABLE, "1"))
"""Factor for all durations: the same for all workers of one demo, or a replay would sleep for a different time."""


@dataclass
class Order:
    """What the customer wants."""

    id: str
    cents: int


approved: Signal[bool] = Signal[bool]("approved")


# -- steps: their outcomes are recorded, and what is recorded is never done again --------------------------------------


@step
async def reserve(order: Order) -> str:
    """One step that simply works."""
    with body():
        await side_effect(0.7)
    return f"shelf-{order.id}"


@step(retry=Retry(5, first=0.9 * PACE))
async def charge(order: Order) -> str:
    """The first attempt fails before any money moves; the engine retries it."""
    with body():
        if current().attempt == 1:
            await asyncio.sleep(0.4 * PACE)
            raise ConnectionError("card network down")
        await side_effect(0.9)
    return f"payment-{order.id}"


@step
async def email(order: Order) -> str:
    """Tells the customer."""
    with body():
        await side_effect(0.5)
    return "email"


@step
async def sms(order: Order) -> str:
    """Tells the customer again."""
    with body():
        await side_effect(1.1)
    return "sms"


@step
async def warehouse(order: Order) -> str:
    with body():
        await side_effect(1.4)
    return "warehouse"


@step
async def pack(order: Order) -> str:
    """Work of the child run."""
    with body():
        await side_effect(0.8)
    return f"parcel-{order.id}"


@step
async def collect(parcel: str) -> None:
    with body():
        await side_effect(0.7)


@step
async def receipt(payment: str, parcel: str) -> None:
    """The last thing an order needs."""
    with body():
        await side_effect(0.7)


# -- workflows: ordinary code that survives its process ----------------------------------------------------------------


@workflow
async def ship(order: Order) -> str:
    """A separate run, started and awaited by the order."""
    parcel = await pack(order)
    await collect(parcel)
    return parcel


@workflow
async def fulfil(order: Order) -> str:
    """An order from shelf to parcel."""
    shelf = await reserve(order)
    payment = await charge(order)
    told = await asyncio.gather(email(order), sms(order), warehouse(order))
    await sleep(1.5 * PACE)
    if not await approved.wait(timeout="1h", default=False):
        return "refused"
    parcel = await ship(order)
    await receipt(payment, parcel)
    return f"{shelf}, {payment}, {parcel}, told: {' '.join(told)}"


def expected(order: Order) -> str:
    """What `fulfil` returns, crash or no crash."""
    return f"shelf-{order.id}, payment-{order.id}, parcel-{order.id}, told: email sms warehouse"


app: App = App(workflows=[fulfil, ship])


# -- the ledger --------------------------------------------------------------------------------------------------------


@contextmanager
def body() -> Generator[None]:
    """Notes that a body begins and that it is left, also by an error."""
    note("begin")
    try:
        yield
    finally:
        note("end")


async def side_effect(seconds: float) -> None:
    """Makes the effect at once, then waits until the other side has answered: if the worker is killed in between, the
    effect has happened and its outcome is unknown."""
    note("effect")
    await asyncio.sleep(seconds * PACE)


def note(word: str) -> None:
    """Appends one line to the ledger, if there is one."""
    ledger = os.environ.get(LEDGER)
    if ledger is None:
        return
    here = current()
    fields = (word, here.run_id, here.key, str(here.attempt), str(os.getpid()), here.idempotency_key)
    descriptor = os.open(Path(ledger), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, ("\t".join(fields) + "\n").encode())
    finally:
        os.close(descriptor)
