"""A fleet in which nothing goes wrong but that its lease manager is far away, and that answers of it get lost.

Nobody is killed, stalled or cut off from the store. So no body runs twice, no run becomes a stray, and the time from a
start to its first body follows the distance.
"""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from holdfast.adapters.memory.store import MemoryStore
from holdfast.authoring.script.context import running_step
from tests.lab.sim import scenario as casting
from tests.lab.sim.scenario import RunPlan, Scenario
from tests.lab.sim.world import DUSK, World

DISTANCES = (0.0, 0.01, 0.1, 0.3)
LOSSES = (0.0, 0.0, 0.1)
FORGOTTEN = 8
"""How often a store that forgets does."""
OF_THE_STORE = 0.6
"""Seconds from a start to its body at most, by the store's own leases: calls to it take 20 ms at most, each way."""
OF_A_LOSS = 8.0
"""Seconds that a few lost answers may cost: a worker pauses for up to 2 s after each."""


class HealthyWorld(World):
    """A world without faults of its own, which measures. `forgets`: the store is wrong about who lives."""

    def __init__(self, seed: int, scenario: Scenario, *, forgets: bool = False) -> None:
        super().__init__(seed, scenario=scenario, faults=[], dusk=DUSK)
        self.is_calm = True
        self.first_bodies: dict[str, float] = {}
        self._forgets = forgets

    async def _play(self) -> None:
        for number in range(FORGOTTEN if self._forgets else 0):
            self.loop.call_later(self.rng.random() * DUSK, self._forget, number % self.scenario.workers + 1)
        await super()._play()

    def _forget(self, actor: int) -> None:
        """The store takes a worker that lives for dead: whoever looks next frees its runs. The manager knows better."""
        instance = self.processes[actor].worker.options.instance
        other = self.processes[actor % self.scenario.workers + 1].worker.options
        assert isinstance(self.store, MemoryStore)
        known = self.store._tables.workers.get(instance)
        if known is not None:
            known.until = 0.0
            self.watch.holding.ended(instance)
            self.store.heart(other.instance, other.ttl).beat()

    @asynccontextmanager
    async def _body(self) -> AsyncGenerator[int]:
        scope = running_step.get()
        assert scope is not None
        self.first_bodies.setdefault(scope.run, self.loop.time())
        async with super()._body() as attempt:
            yield attempt

    def waits(self) -> list[float]:
        """Seconds from the start of each run to its first body, of those whose first deed is a step.

        None if the queue has places: a run may rightly wait until another one ends."""
        if self.scenario.at_once:
            return []
        plans = [plan for plan in self.scenario.runs if begins_with_a_step(plan)]
        return sorted(self.first_bodies[plan.id] - plan.starts_at for plan in plans if plan.id in self.first_bodies)

    def problems(self) -> list[str]:
        """Runs the world: what does not hold of a healthy fleet."""
        result = self.run()
        found = list(result.problems)
        if self.met["takeover"]:
            found.append(f"{self.met['takeover']} time(s) a body began again although nobody was killed")
        if self.met["stray"]:
            found.append(f"{self.met['stray']} run(s) were held by a worker that did not know it")
        scenario = self.scenario
        bound = 4 * scenario.distance + OF_THE_STORE + (OF_A_LOSS if scenario.losses else 0.0)
        if (longest := max(self.waits(), default=0.0)) > bound:
            found.append(f"{longest:.3f} s from a start to its body, {bound:.3f} s at most with {scenario.distance} s")
        return found


def begins_with_a_step(plan: RunPlan) -> bool:
    """Whether its first body begins as soon as a worker has it, and nobody is in between."""
    is_held_up = plan.delay or plan.items or plan.is_disturbed or plan.pauses_at >= 0
    return bool(plan.plan) and plan.plan[0][0] == "step" and not is_held_up


def drawn(seed: int) -> HealthyWorld:
    """A healthy fleet by chance: several workers with room, and a lease manager somewhere."""
    scenario = casting.draw(random.Random(f"{seed} scenario"))
    rng = random.Random(f"{seed} healthy")
    scenario.workers = rng.choice((2, 2, 3, 5))
    scenario.slots, scenario.hints, scenario.keep = 100, "all", None
    scenario.has_grants, scenario.distance, scenario.losses = True, rng.choice(DISTANCES), rng.choice(LOSSES)
    forgets = not scenario.losses and rng.random() < 0.4
    if forgets:  # an operator may rightly take a run from a holder that the store takes for dead, and cut its body off
        for run in scenario.runs:
            run.pauses_at = run.kills_at = run.cancels_at = run.cancels_again_at = -1.0
    return HealthyWorld(seed, scenario, forgets=forgets)


def fleet(count: int, distance: float | None, *, workers: int = 2, gap: float = 0.05) -> Scenario:
    """Runs of one step each, started one after the other. `distance` None: the leases are the store's own."""
    runs = [RunPlan(f"run-{n}", [["step", f"s{n}", 500, 0]], starts_at=1 + n * gap) for n in range(count)]
    return Scenario(workers=workers, slots=100, runs=runs, has_grants=distance is not None, distance=distance or 0.0)
