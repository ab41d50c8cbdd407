"""The way from one actor to the store: calls take time, fail, are answered too late or never; hints get lost.

Everything that passes is told to the watch, before its answer is: what was written counts, not what somebody heard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from holdfast.errors import StoreUnavailable
from holdfast.ports.leases import Beat, Heart
from holdfast.ports.store import Store
from tests.lab.sim.faults import WRITES, Fault
from tests.lab.sim.loop import ACTOR, HEART
from tests.support.faults import FaultyStore

if TYPE_CHECKING:
    from tests.lab.sim.world import World


class Wire(FaultyStore):
    """One actor's store."""

    def __init__(self, inner: Store, world: World, actor: int, *, is_client: bool = False) -> None:
        super().__init__(inner)
        self._world = world
        self._actor = actor
        self._is_client = is_client
        self._chance = world.rng.random
        self.clock = inner.clock
        self.is_cut = False

    async def perform(
        self, name: str, found: Callable[..., Awaitable[Any]], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        world = self._world
        fault = world.boundary(self._actor, name, is_client=self._is_client)
        kind = "" if fault is None else fault.kind
        if fault is not None:
            await self._strike_before(fault)
        await self._travel()
        if self.is_cut or kind == "refuse" or world.is_out:
            raise StoreUnavailable("injected: refused")
        if name == "commit" and world.scenario.knocks:
            await world.knocks.before(args)
        answer = await world.watch.call(self._actor, name, found, args, kwargs)
        if kind == "crash after":
            assert fault is not None
            world.crash(self._actor, same_id=bool(fault.amount))
            await self._world.never()
        if kind == "slow":
            assert fault is not None
            await asyncio.sleep(fault.amount)
        await self._travel()
        if kind == "lose answer" or self.is_cut:
            world.met["answer lost"] += 1
            raise StoreUnavailable("injected: answer lost")
        return answer

    async def _travel(self) -> None:
        """Most calls take no time that matters; those that do let others in between."""
        chance = self._chance()
        if chance < 0.2:
            await asyncio.sleep(0)
        elif chance < 0.3:
            await asyncio.sleep(self._chance() * 0.02)

    async def _strike_before(self, fault: Fault) -> None:
        match fault.kind:
            case "crash before":
                self._world.crash(self._actor, same_id=bool(fault.amount))
                await self._world.never()
            case "stall":
                self._world.stall(self._actor, fault.amount, with_heart=True)
                await asyncio.sleep(0)
            case "block":
                self._world.stall(self._actor, fault.amount, with_heart=False)
                await asyncio.sleep(0)
            case _:
                pass

    def changes(self) -> int:
        """Nothing comes from other processes but by the poll."""
        return 0

    def heart(self, instance: str, ttl: timedelta) -> Heart:
        """The heartbeat, which fails likewise."""
        return cast("Heart", _WiredHeart(self, self.inner.heart(instance, ttl), instance, ttl))

    def beaten(self, instance: str, ttl: timedelta, beat: Callable[[], Beat]) -> Beat:
        """One heartbeat, on its way."""
        world = self._world
        fault = world.boundary(self._actor, "beat", is_client=False)
        kind = "" if fault is None else fault.kind
        if kind == "crash before":
            assert fault is not None
            world.crash(self._actor, same_id=bool(fault.amount))
        if self.is_cut or world.is_out or kind == "refuse":
            raise StoreUnavailable("injected: refused")
        answer = beat()
        world.watch.beaten(self._actor, instance, ttl, answer)
        if kind == "crash after":
            assert fault is not None
            world.crash(self._actor, same_id=bool(fault.amount))
        if self.is_cut or kind == "lose answer":
            raise StoreUnavailable("injected: answer lost")
        return answer

    def subscribe(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Hints: at once, late, twice, in another order, or never."""
        context = copy_context()
        context.run(ACTOR.set, self._actor % HEART)
        loop, hints, chance = self._world.loop, self._world.hints, self._chance

        def tell(run: str) -> None:
            if hints == "none" or (hints == "lossy" and chance() < 0.4):
                return
            loop.call_later(chance() * 0.05 if hints == "lossy" else 0.0, listener, run, context=context)
            if hints == "lossy" and chance() < 0.2:
                loop.call_later(chance(), listener, run, context=context)

        return self.inner.subscribe(tell)


class _WiredHeart:
    def __init__(self, wire: Wire, inner: Heart, instance: str, ttl: timedelta) -> None:
        self._wire = wire
        self._inner = inner
        self._whose = (instance, ttl)

    def beat(self, progress: str = "", *, recovery: str = "", frees: int = 100, takes_back: bool = True) -> Beat:
        def beat() -> Beat:
            return self._inner.beat(progress, recovery=recovery, frees=frees, takes_back=takes_back)

        return self._wire.beaten(*self._whose, beat)

    def close(self) -> None:
        self._inner.close()


def is_write(name: str) -> bool:
    """Whether a call belongs to the boundaries where turns are written."""
    return name in WRITES
