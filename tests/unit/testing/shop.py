"""A shop for tests of `holdfast.testing`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import ClassVar

from holdfast import Retry, RunVar, Signal, Topic, remote, resource, sleep, step, workflow


@dataclass
class Order:
    """What is bought."""

    id: str
    cents: int = 100


class CardDeclined(Exception): ...


class Till:
    """A real resource, which says whether it was opened and closed."""

    log: ClassVar[list[str]] = []

    def take(self, cents: int) -> str:
        """The payment."""
        return f"took {cents}"


approved = Signal[bool]("approved")
prices = Topic[int]("prices")
progress = RunVar[str]("progress")


@resource
async def till() -> AsyncIterator[Till]:
    Till.log.append("opened")
    yield Till()
    Till.log.append("closed")


@step(retry=Retry(3, first="1s"), raises=CardDeclined)
async def charge(order: Order) -> str:
    return till().take(order.cents)


@step
def label(order: Order) -> str:
    return f"#{order.id}"


@workflow
async def ship(order: Order, express: bool = False) -> str:
    await sleep("1h" if express else "2d")
    return f"shipped {order.id}"


@workflow(raises=CardDeclined)
async def fulfil(order: Order) -> str:
    progress.set(await charge(order))
    if not await approved.wait(timeout="3d", default=False):
        return "refused"
    await sleep("1h")
    return f"{await asyncio.to_thread(label, order)}: {await ship(order, express=True)}"


@workflow
async def watch() -> int:
    return await prices.wait()


@remote
async def invoice(order: Order, copies: int = 1) -> str:
    raise NotImplementedError


@workflow
async def bill(order: Order) -> str:
    return await invoice(order)
