"""A lease manager that is far away and lies: answers get lost, two hold a run at once, grants are forgotten."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import timedelta

from holdfast.adapters.memory.grants import MemoryGrants
from holdfast.errors import StoreUnavailable
from holdfast.ports.clock import Clock
from holdfast.ports.grants import Acquiring, Grant, OwnedBy, Releasing

LIES = 25
"""So many answers after `lie()` may be wrong."""


class LyingGrants(MemoryGrants):
    """Honest until told to lie. `distance`: the seconds a call takes at most, each way. `losses`: the share of calls
    that are not heard, or whose answer is not."""

    def __init__(
        self,
        clock: Clock,
        rng: random.Random,
        uptime: Callable[[], float],
        *,
        distance: float = 0.0,
        losses: float = 0.0,
    ) -> None:
        super().__init__(clock)
        self._uptime = uptime
        self._rng = rng
        self._lies = 0
        self._distance = distance
        self._losses = losses
        self.told = 0

    def _second(self) -> float:
        """The manager has a machine of its own: a reboot of the workers' does not turn its clock back."""
        return self._uptime()

    def lie(self) -> None:
        """From now on some answers are wrong."""
        self._lies = LIES

    def be_honest(self) -> None:
        """From now on all are right, and arrive."""
        self._lies = 0
        self._losses = 0.0

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
        if self._lies <= 0:
            return answer
        self._lies -= 1
        chance = self._rng.random()
        if chance < 0.4 and isinstance(answer, OwnedBy):  # split brain: two hold it
            self.told += 1
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
        if self._losses and self._rng.random() < self._losses:
            raise StoreUnavailable("injected: the lease manager heard no heartbeat")
        super().heartbeat(worker, ttl)

    async def _travel(self) -> None:
        if self._losses and self._rng.random() < self._losses / 2:
            raise StoreUnavailable("injected: lost on the way to the lease manager, or back")
        if self._distance:
            await asyncio.sleep(self._rng.random() * self._distance)

    def orphans(self) -> AsyncIterator[str]:
        """Nobody tells: the poll finds them."""
        return _nothing()


async def _nothing() -> AsyncIterator[str]:
    return
    yield
