"""The workflows that the tests of batches run, and the ledger of what they did."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from holdfast import (
    Batch,
    FlowBuilder,
    Item,
    Machine,
    Retry,
    Signal,
    step,
    workflow,
)
from tests.support.world import collected

go = Signal[bool]("go")


class Declined(Exception):
    pass


@dataclass
class Order:
    id: int
    bad: bool = False


class Ledger:
    """What ran, and how much of it at a time."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.now = self.most = 0


ledger = Ledger()


@step(retry=Retry.none)
async def price(order: Order) -> int:
    ledger.begun.append(order.id)
    ledger.now += 1
    ledger.most = max(ledger.most, ledger.now)
    await asyncio.sleep(0)
    ledger.now -= 1
    if order.bad:
        raise ValueError(f"no price for {order.id}")
    return order.id * 10


@workflow(raises=Declined)
async def sell(order: Order, discount: int = 0) -> int:
    if order.id == 13:
        raise Declined("unlucky")
    return await price(order) - discount


@workflow
async def inner(order: Order) -> int:
    return await price(order)


@workflow
async def outer(order: Order) -> int:
    return await inner(order)


@workflow
async def waits(order: Order) -> int:
    ledger.begun.append(order.id)
    await go.wait()
    return order.id


@dataclass
class Draft:
    id: int


@dataclass
class Sold:
    cents: int


shop = Machine[Draft, Sold]("shop")


@shop.state
async def sold(s: Draft) -> Sold:
    return Sold(s.id * 2)


WORKFLOWS: list[Any] = [sell, inner, outer, waits, shop]


def orders(count: int, bad: tuple[int, ...] = ()) -> Iterator[Order]:
    return (Order(number, number in bad) for number in range(count))


async def ended(batch: Batch[Any], order: Literal["index", "completion"] = "index") -> list[Item[Any]]:
    """Every item of a batch that is coming to its end."""
    return await collected(batch.items(order=order), f"the items of batch {batch.id}")


priced = FlowBuilder(
    "priced", input_schema={"type": "object", "required": ["id"], "properties": {"id": {"minimum": 0}}}
)

cents = priced.call("cents", price, {"order": {"id": priced.input["id"], "bad": priced.input["bad"].otherwise(False)}})
