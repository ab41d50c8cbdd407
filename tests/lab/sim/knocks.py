"""A signal that arrives just before a run's end is written: the store refuses the end, with bodies in flight or not."""

from __future__ import annotations

import random
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core import events as e
from holdfast.core.messages import encode_event
from holdfast.core.run import Run
from holdfast.ports.inbox import Message
from holdfast.ports.journal import Commit
from tests.lab.sim.scenario import waits_of
from tests.lab.sim.workflows import news, once

if TYPE_CHECKING:
    from tests.lab.sim.world import World


class Knocks:
    """Each run is knocked at once at most, as eagerly as the scenario says. Chance of its own: what is drawn here
    changes nothing else of the seed."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = random.Random(f"{world.seed} knocks").random
        self._knocked: set[str] = set()

    async def before(self, args: tuple[Any, ...]) -> None:
        """Turns are about to be committed."""
        world = self._world
        batch: list[Commit] = args[0]
        for run in [commit.row.run for commit in batch if commit.is_terminal]:
            known = world.watch.runs.get(run)
            if world.is_calm or run in self._knocked or known is None or not self._may_be_knocked(known.fold):
                continue
            self._knocked.add(run)
            if self._chance() < world.scenario.knocks:
                name = f"knock on {run}"
                signal = e.SignalReceived(message=name, name=news.name, sender="", value=msgspec.Raw(b"77"))
                world.watch.note(name)
                await world.store.send(Message(run=run, id=name, kind="signal", body=encode_event(signal)))

    def _may_be_knocked(self, run: Run) -> bool:
        """Whether the model knows what another signal does: the run is prepared for it, or never waits for one."""
        plans = [plan.plan for plan in self._world.scenario.runs if plan.id == run.id]
        return has_once_in_flight(run) or any(plan and not waits_of(plan) for plan in plans)


def has_once_in_flight(run: Run, but: Collection[str] = ()) -> bool:
    """Whether the body of a step that may run once is at work, as far as the journal knows."""
    return any(step.step == once.name and step.key not in but for step in run.in_flight)
