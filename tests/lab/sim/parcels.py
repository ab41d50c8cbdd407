"""A machine of the simulation: its states are steps."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from holdfast import Machine, More
from tests.lab.sim.stage import FEW, STAGE


@dataclass
class Filling:
    """The first state: `left` parcels to go."""

    left: int
    cents: int = 0


@dataclass
class Packing:
    """Packed one by one."""

    cents: int
    left: int


@dataclass
class Sent:
    """The final state."""

    cents: int


parcels = Machine[Filling, Sent]("parcels", retry=FEW)


@parcels.state
async def fill(state: Filling) -> Filling | Packing:
    """Comes back to itself until all are filled."""
    async with STAGE.body():
        await asyncio.sleep(0.01)
        if state.left > 1:
            return Filling(state.left - 1, state.cents + 10)
        return Packing(state.cents + 10, 2)


@parcels.stepped
async def pack(state: Packing, cursor: int | None) -> More[int] | Sent:
    """One parcel after another."""
    async with STAGE.body():
        done = (cursor or 0) + 1
        await asyncio.sleep(0.005)
        return More(done) if done < state.left else Sent(state.cents + done)
