"""Workflows to sweep, right and wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from holdfast import Machine, OutcomeUnknown, Signal, current, resource, saga, sleep, step, workflow
from holdfast.sync import step as sync_step
from holdfast.sync import workflow as sync_workflow


class Bank:
    """What a faked bank remembers."""

    def __init__(self) -> None:
        self.payments: list[int] = []
        self.by_key: dict[str, int] = {}


@resource
async def bank() -> AsyncIterator[Bank]:
    yield Bank()


approved = Signal[bool]("approved")
attempts: list[int] = []


@step
async def charge(cents: int) -> str:
    bank().payments.append(cents)
    return f"paid {cents}"


@step
async def charge_by_key(cents: int) -> str:
    bank().by_key[current().idempotency_key] = cents
    return f"paid {cents}"


@charge_by_key.undo
async def refund(payment: str, cents: int) -> None:
    bank().by_key[current().idempotency_key] = -cents


@step(once=True)
async def charge_once(cents: int) -> str:
    bank().payments.append(cents)
    return f"paid {cents}"


@workflow
async def immediate(cents: int) -> int:
    return cents


@workflow
async def refusing(cents: int) -> int:
    raise ValueError(f"{cents} is too little")


@workflow
async def careless(cents: int) -> str:
    return await charge(cents)


@workflow
async def careful(cents: int) -> str:
    payment = await charge_by_key(cents)
    if not await approved.wait(timeout="3d", default=False):
        return "not approved"
    await sleep("1h")
    return payment


@workflow
async def cautious(cents: int) -> str:
    try:
        return await charge_once(cents)
    except OutcomeUnknown:
        return "somebody looks into it"


@workflow
async def undoing(cents: int) -> str:
    async with saga():
        await charge_by_key(cents)
        await approved.wait(timeout="1h", default=False)
        raise ValueError("no")


@workflow
async def many(count: int) -> list[str]:
    return [await charge_by_key(number) for number in range(count)]


@workflow
async def together(count: int) -> list[str]:
    return list(await asyncio.gather(*(charge_by_key(number) for number in range(count))))


@workflow
async def parent(cents: int) -> str:
    return f"child: {await careful(cents)}"


@step
async def count_attempts() -> int:
    attempts.append(current().attempt)
    return 1


@workflow
async def counted() -> int:
    return await count_attempts()


@step
async def weigh(text: str) -> str:
    return text + text


@workflow
async def weighs(text: str) -> int:
    return len(await weigh(text))


@step(tx=True)
async def insert(cents: int) -> int:
    raise AssertionError("there is no database")


@step
async def insert_plainly(cents: int) -> int:
    raise AssertionError("there is no database")


@workflow
async def booked(count: int) -> list[int]:
    return sorted(await asyncio.gather(*(insert(number) for number in range(count))))


@workflow
async def booked_plainly(count: int) -> list[int]:
    return [await insert_plainly(number) for number in range(count)]


@sync_step
def load(page: int) -> int:
    return page * 2


@sync_workflow
def report(pages: int) -> int:
    return sum(load(page) for page in range(pages))


@dataclass
class Begin:
    cents: int


@dataclass
class Paid:
    payment: str


@dataclass
class Shipped:
    payment: str


parcel = Machine[Begin, Shipped]("parcel")


@parcel.state
async def pay(s: Begin) -> Paid:
    bank().by_key[current().idempotency_key] = s.cents
    return Paid("p1")


@parcel.script
async def ship(s: Paid) -> Shipped:
    await sleep("2d")
    return Shipped(s.payment)
