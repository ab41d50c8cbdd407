"""Right uses of machines: both checkers accept every line in strict mode, and infer what the author means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_type

from holdfast import Again, App, Breaker, Call, Join, Machine, More, Run
from holdfast.testing.machines import MemoryLog


@dataclass
class Order:
    id: str
    cents: int


class CardDeclined(Exception): ...


app = App()


@dataclass
class Reserve:
    order: Order


@dataclass
class Quoting:
    order: Order
    shelf: str


@dataclass
class Packing:
    cents: int


@dataclass
class Waiting:
    cents: int


@dataclass
class Delivered:
    parcels: int


@dataclass
class Refused:
    why: str


parcel = Machine[Reserve, Delivered | Refused]("parcel", version="2", timeout="14d", compensation_timeout="1m", retry=3)


@parcel.state(retry=3, timeout="5s", breaker=Breaker(5), raises=CardDeclined)
async def reserve(s: Reserve) -> Quoting | Refused:
    return Quoting(s.order, "B7") if s.order.cents else Refused("empty order")


@reserve.undo
async def release(left: Quoting | Refused, s: Reserve) -> None: ...


async def dhl(s: Quoting) -> int:
    return 500


async def ups(s: Quoting) -> int:
    return 450


@parcel.split(dhl, ups, join=Join.any(), timeout="10s", bulkhead=2)
async def choose(s: Quoting, quotes: list[int]) -> Packing:
    return Packing(min(quotes))


@parcel.stepped
async def pack(s: Packing, cursor: int | None) -> More[int] | Waiting:
    return More((cursor or 0) + 1) if (cursor or 0) < 3 else Waiting(s.cents)


@parcel.poll(errors=2)
async def wait_for_van(s: Waiting) -> Again | Delivered:
    return Again("1m") if s.cents else Delivered(3)


async def use_machines(order: Order) -> None:
    assert_type(await reserve(Reserve(order)), Quoting | Refused)
    assert_type(await parcel.run(Reserve(order)), Delivered | Refused)
    call: Call[Delivered | Refused] = parcel(Reserve(order))
    assert_type(await parcel.run(Reserve(order), store=MemoryLog(), id="run-1"), Delivered | Refused)
    assert_type(await parcel.resume("run-1", store=MemoryLog(), keep_log=True), Delivered | Refused)
    run = await app.start(call, id="run-42")
    assert_type(run, Run[Delivered | Refused])
    assert_type(await app.get("run-42", parcel), Run[Delivered | Refused])
    assert_type(parcel.diagram("svg"), str)
