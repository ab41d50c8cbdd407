"""The app of the page's tests: an order with everything a timeline can show, a machine, a flow and a batch.

Bodies last as long as the tests want: a step named in `SHOP_HOLD` waits forever, until its process is killed or the
file `SHOP_GO` is there.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast import (
    App,
    Limit,
    Machine,
    Queue,
    Retry,
    RunVar,
    Signal,
    Stream,
    Update,
    current,
    load_flow,
    set_attributes,
    sleep,
    step,
    workflow,
)  # fmt: skip

PACE = float(os.environ.get("SHOP_PACE", "0.02"))
approved: Signal[bool] = Signal[bool]("approved")
progress: RunVar[str] = RunVar[str]("progress")


@dataclass
class Order:
    id: str
    cents: int
    gift: bool = False


async def hold(name: str) -> None:
    """Lets a body wait until the test lets it go on."""
    if name in os.environ.get("SHOP_HOLD", "").split():
        while not Path(os.environ["SHOP_GO"]).exists():  # noqa: ASYNC110, ASYNC240 a file is all that processes share
            await asyncio.sleep(0.01)
    await asyncio.sleep(PACE)


@step(retry=Retry(5, first=4 * PACE))
async def charge(order: Order) -> str:
    await hold("charge")
    if current().attempt == 1:
        raise ConnectionError("card network down")
    return f"payment-{order.id}"


@step
async def email(order: Order) -> str:
    await hold("email")
    return "told"


@step
async def warehouse(order: Order) -> str:
    await hold("warehouse")
    return "packed"


@step(retry=Retry(3, first="5m", ceiling="1h"))
async def receipt(order: Order) -> None:
    raise ConnectionError("printer on fire")


@step(retry=Retry.none)
async def refuse(why: str) -> None:
    raise ValueError(why)


@step
async def pack(order: Order) -> str:
    await hold("pack")
    return f"parcel-{order.id}"


@workflow
async def ship(order: Order) -> str:
    """A run of its own, started and awaited by the order."""
    return await pack(order)


@workflow(version="2")
async def fulfil(order: Order) -> str:
    """An order from payment to parcel."""
    await charge(order)
    progress.set(f"charged payment-{order.id}")
    await asyncio.gather(email(order), warehouse(order))
    await sleep(PACE)
    if not await approved.wait(timeout="3d", default=False):
        return "refused"
    parcel = await ship(order)
    await receipt(order)
    return parcel


tokens: Stream[str] = Stream[str]("tokens")
reassign: Update[str, str] = Update[str, str]("reassign")
model_places: Limit = Limit("model", at_once=1)


@step(limits=[model_places])
async def answer(prompt: str) -> str:
    for word in f"attempt {current().attempt} says {prompt}".split():
        tokens.send(f"{word} ")
    await tokens.flush()
    await hold("answer")
    return prompt


@workflow
async def agent(prompt: str) -> str:
    """Streams, is asked, and changes its attributes."""
    await answer(prompt)
    async with reassign.take() as ask:
        set_attributes(owner=ask.value)
        ask.answer(f"now {ask.value}'s")
    return await approved_by(ask.value)


@step
async def approved_by(who: str) -> str:
    await hold("approved_by")
    return who


@workflow
async def quick(name: str) -> str:
    """Says hello."""
    return f"hello {name}"


@workflow
async def broken(why: str) -> None:
    """Fails."""
    await refuse(why)


@dataclass
class Packing:
    order: str
    tries: int = 0


@dataclass
class Weighing:
    order: str
    tries: int


@dataclass
class Delivered:
    parcels: int


parcel = Machine[Packing, Delivered]("parcel")


@parcel.state
async def packing(s: Packing) -> Weighing:
    return Weighing(s.order, s.tries + 1)


@parcel.state
async def weighing(s: Weighing) -> Packing | Delivered:
    return Delivered(1) if s.tries > 1 else Packing(s.order, s.tries)


@step(name="quote")
async def quote(sku: str) -> int:
    return len(sku)


@step(name="add")
async def add(a: int, b: int) -> int:
    return a + b


pricing = load_flow(Path(__file__).with_name("pricing.yaml"))


@workflow
async def price(sku: str) -> int:
    """One item of a batch."""
    if sku.endswith("3"):
        await refuse(f"no price for {sku}")
    return len(sku)


WORKFLOWS: list[Any] = [fulfil, ship, quick, broken, parcel, pricing, price, quote, add, agent]

QUEUES = [Queue("emails", at_once=2, shares={"gold": 3.0})]

app: App = App(os.environ.get("SHOP_STORE", "memory://"), workflows=WORKFLOWS, queues=QUEUES)
