"""A lease manager that is far away and lies: answers get lost, two hold a run at once, grants are forgotten."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from holdfast.adapters.memory.grants import MemoryGrants
from holdfast.errors import StoreUnavailable
from holdfast.ports.clock import Clock
from holdfast.ports.grants import Acquiring, Grant, OwnedBy, Releasing

LIES = 25
"""So many answers after `lie()` may be wrong."""


@dataclass
class Manager:
    """What holds for all processes. `uptime`: the manager has a machine of its own, and a reboot of the workers' does
    not turn its clock back. `distance`: the seconds a call takes at most, each way. `losses`: the share of calls that
    are not heard, or whose answer is not."""

    rng: random.Random
    uptime: Callable[[], float]
    distance: float = 0.0
    losses: float = 0.0
    lies: int = 0


class LyingGrants(MemoryGrants):
    """Honest until told to lie."""

    def __init__(self, clock: Clock, manager: Manager, *, of: LyingGrants | None = None) -> None:
        super().__init__(clock, of=of)
        self._manager = manager

    def reached(self) -> LyingGrants:
        """The same manager, as another process reaches it."""
        return LyingGrants(self._clock, self._manager, of=self)

    def _second(self) -> float:
        return self._manager.uptime()

    def lie(self) -> None:
        """From now on some answers are wrong."""
        self._manager.lies = LIES

    def be_honest(self) -> None:
        """From now on all are right, and arrive."""
        self._manager.lies = 0
        self._manager.losses = 0.0

    async def acquire(self, run: str, worker: str, ttl: timedelta) -> Acquiring:
        """The grant; or a lie."""
        return (await self.acquire_many([run], worker, ttl))[run]

    async def acquire_many(self, runs: Sequence[str], worker: str, ttl: timedelta) -> Mapping[str, Acquiring]:
        """The grants; or lies."""
        await self._travel()
        answers = {run: self._answer(run, await MemoryGrants.acquire(self, run, worker, ttl), worker) for run in runs}
        await self._travel()
        return answers

    def _answer(self, run: str, answer: Acquiring, worker: str) -> Acquiring:
        manager = self._manager
        if manager.lies <= 0:
            return answer
        manager.lies -= 1
        chance = manager.rng.random()
        if chance < 0.4 and isinstance(answer, OwnedBy):  # split brain: two hold it
            return Grant(run, worker, self._clock.now(), answer.expires_at)
        if chance < 0.5:  # the disk lost it
            self._held.pop(run, None)
        elif chance < 0.6:
            raise StoreUnavailable("injected: the lease manager does not answer")
        return answer

    async def release(self, run: str, worker: str) -> Releasing:
        """Gives it back, some time later."""
        await self._travel()
        answer = await super().release(run, worker)
        await self._travel()
        return answer

    async def release_all(self, worker: str) -> Sequence[str]:
        """Gives everything back, some time later."""
        await self._travel()
        answer = await super().release_all(worker)
        await self._travel()
        return answer

    def heartbeat(self, worker: str, ttl: timedelta) -> None:
        """Prolongs its grants, unless it gets lost."""
        manager = self._manager
        if manager.losses and manager.rng.random() < manager.losses:
            raise StoreUnavailable("injected: the lease manager heard no heartbeat")
        super().heartbeat(worker, ttl)

    async def _travel(self) -> None:
        manager = self._manager
        if manager.losses and manager.rng.random() < manager.losses / 2:
            raise StoreUnavailable("injected: lost on the way to the lease manager, or back")
        if manager.distance:
            await asyncio.sleep(manager.rng.random() * manager.distance)

    def orphans(self) -> AsyncIterator[str]:
        """Nobody tells: the poll finds them."""
        return _nothing()


async def _nothing() -> AsyncIterator[str]:
    return
    yield
