"""The workflow the chaos tests kill workers over: ten steps, parallel branches, a sleep, a signal, a child, a retry.

Every body writes one line to the ledger when it starts and one when it ends: `start charge 1 <pid>`. The ledger is a
file of its own, appended to with single writes, so it says what really happened, whatever the store says.
"""

from __future__ import annotations

import asyncio
import os

from holdfast import Retry, Signal, current, sleep, step, workflow
from tests.support.ledger import append

LEDGER = "HOLDFAST_TEST_LEDGER"
GATE = "HOLDFAST_TEST_GATE"
"""If set, the first step waits until that file is there."""

approved = Signal[bool]("approved")


def note(what: str) -> None:
    """One line in the ledger."""
    here = current()
    append(os.environ[LEDGER], f"{what} {here.run_id} {here.key} {here.attempt} {os.getpid()}")


async def gate_opened() -> None:
    """Waits until the test lets the first step go on."""
    gate = os.environ.get(GATE)
    while gate and not os.path.exists(gate):  # noqa: ASYNC110, ASYNC240, PTH110 another process opens it
        await asyncio.sleep(0.01)


@step
async def reserve(order: str) -> str:
    note("start")
    await gate_opened()
    note("end")
    return f"reserved {order}"


@step(retry=Retry(5, first="10ms", ceiling="20ms"))
async def charge(order: str) -> str:
    note("start")
    if current().attempt == 1:
        raise ConnectionError("the first try fails")
    note("end")
    return f"charged {order}"


@step
async def notify(kind: str, order: str) -> str:
    note("start")
    await asyncio.sleep(0)
    note("end")
    return f"{kind} to {order}"


@step
def label(order: str) -> str:
    note("start")
    note("end")
    return f"#{order}"


@step
async def pack(order: str) -> str:
    note("start")
    note("end")
    return f"packed {order}"


@workflow
async def ship(order: str) -> str:
    packed = await pack(order)
    await sleep("20ms")
    return f"{packed}, shipped"


@workflow
async def fulfil(order: str) -> list[str]:
    """Ten step executions: reserve, charge, three notifications, label, the child's pack, three more notifications."""
    done = [await reserve(order), await charge(order)]
    done += await asyncio.gather(notify("email", order), notify("sms", order), notify("push", order))
    await sleep("30ms")
    if not await approved.wait(timeout="1h", default=False):
        return ["refused"]
    done.append(await asyncio.to_thread(label, order))
    done.append(await ship(order))
    async with asyncio.TaskGroup() as group:
        last = [group.create_task(notify(kind, order)) for kind in ("letter", "fax", "pigeon")]
    return done + [task.result() for task in last]


EXPECTED = [
    "reserved o1",
    "charged o1",
    "email to o1",
    "sms to o1",
    "push to o1",
    "#o1",
    "packed o1, shipped",
    "letter to o1",
    "fax to o1",
    "pigeon to o1",
]
