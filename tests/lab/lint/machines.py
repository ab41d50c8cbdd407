"""A machine that reads the clock where it may, and once where it may not."""

from __future__ import annotations

import time
from dataclasses import dataclass

from holdfast import Machine, sleep


@dataclass
class Pack:
    order: str


@dataclass
class Route:
    order: str
    at: float


@dataclass
class Rest:
    order: str


@dataclass
class Sent:
    order: str


parcel = Machine[Pack, Sent]("parcel")


@parcel.state
async def pack(state: Pack) -> Route:
    return Route(state.order, time.time())


@parcel.router
def route(state: Route) -> Rest | Sent:
    return Rest(state.order) if time.time() > state.at else Sent(state.order)


@parcel.script
async def rest(state: Rest) -> Sent:
    await sleep("1h")
    return Sent(state.order)
