"""A lease manager that lies: two holders at once, grants forgotten, owners made up."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from datetime import timedelta

from holdfast.adapters.memory.grants import MemoryGrants
from holdfast.errors import StoreUnavailable
from holdfast.ports.clock import Clock
from holdfast.ports.grants import Acquiring, Grant, OwnedBy

LIES = 25
"""So many answers after `lie()` may be wrong."""


class LyingGrants(MemoryGrants):
    """Honest until told to lie."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        super().__init__(clock)
        self._rng = rng
        self._lies = 0
        self.told = 0

    def lie(self) -> None:
        """From now on some answers are wrong."""
        self._lies = LIES

    def be_honest(self) -> None:
        """From now on all are right."""
        self._lies = 0

    async def acquire(self, run: str, worker: str, ttl: timedelta) -> Acquiring:
        """The grant; or a lie."""
        answer = await super().acquire(run, worker, ttl)
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

    def orphans(self) -> AsyncIterator[str]:
        """Nobody tells: the poll finds them."""
        return _nothing()


async def _nothing() -> AsyncIterator[str]:
    return
    yield
