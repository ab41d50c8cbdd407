"""Runs whose leases are granted by a manager, and managers that can be watched and cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from holdfast import Run, current, step, workflow
from holdfast.adapters.memory.grants import MemoryGrants
from holdfast.errors import StoreUnavailable
from holdfast.ports.grants import Acquiring
from holdfast.worker.worker import Worker
from tests.support.world import World, seconds

LEASE = seconds(15)


class Stage:
    """One step that stands still until it is let go."""

    def __init__(self) -> None:
        self.began: list[int] = []
        self.leave = asyncio.Event()
        stage = self

        @step
        async def slow() -> int:
            stage.began.append(current().attempt)
            await stage.leave.wait()
            return len(stage.began)

        @workflow
        async def work() -> int:
            return await slow()

        self.slow = slow
        self.work = work


class Asked(MemoryGrants):
    """A manager that counts what it is asked, and does not answer when told so."""

    asked = 0
    loses = 0
    """So many answers more are lost: what was asked for is done."""
    is_away = False

    async def acquire_many(self, runs: Sequence[str], worker: str, ttl: timedelta) -> Mapping[str, Acquiring]:
        self.asked += 1
        if self.is_away:
            raise StoreUnavailable("the manager is away")
        answers = await super().acquire_many(runs, worker, ttl)
        if self.loses:
            self.loses -= 1
            raise StoreUnavailable("the answer is lost")
        return answers


async def freed_by_mistake(world: World, run: Run[Any], owner: Worker) -> None:
    """The store takes the owner for dead and frees the run; the owner, which lives, beats again."""
    now = world.clock.now()
    row = msgspec.structs.replace(owner.row, instance="checker", worker="checker", started_at=now)
    world.clock.advance(owner.options.ttl)
    await world.store.register(row, LEASE, takes_over="none")
    heart = world.store.heart("checker", LEASE)
    assert (await asyncio.to_thread(heart.beat)).orphaned == 1
    heart.close()
    await world.beat(owner)
    assert (await world.row(run)).instance == ""


def calm(**options: Any) -> dict[str, Any]:
    """A worker that neither polls nor beats by itself while the test looks."""
    return {"ttl": "1000s", "poll": "400s", **options}
