"""Schedules of a world: who declares which, and a ledger of their slots, counted apart from the store and the rules.

Every move of a schedule that the store accepts is looked at. The slots between the cursor before and the one after come
from arithmetic alone, and each of them must be a run, buffered, skipped or missed: none is lost. No run is made twice
or before its slot, and where `overlap` says so only one of them is open at a time (C6, C7, S16).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.authoring.schedule import Schedule
from holdfast.client import schedules
from holdfast.client.client import Client
from holdfast.core import events as e
from holdfast.core.schedule import Definition, ScheduleState
from holdfast.errors import Conflict, ScheduleNotFound
from holdfast.ports.schedules import Move, Moved, Moving
from holdfast.ports.store import Store
from tests.lab.sim.scenario import Scenario, SchedulePlan, agrees, model
from tests.lab.sim.workflows import play

if TYPE_CHECKING:
    from tests.lab.sim.world import World

DUTY = timedelta(seconds=1)
"""How long a simulated worker has the duty after each pass: shorter than stalls, so that several think they have it."""

LATE = 10.0
"""Virtual seconds after which a slot must have been decided once the faults have stopped."""


def draw_schedules(rng: Random, scenario: Scenario) -> None:
    """Which schedules there are. Drawn last, so that earlier seeds keep their runs."""
    if rng.random() < 0.75:
        return
    for number in range(rng.choice((1, 1, 2))):
        plan = SchedulePlan(
            name=f"schedule-{number}",
            plan=[["step", f"slot.{number}", rng.choice((0, 5, 200, 1500)), rng.choice((0, 0, 1))]],
            period=rng.choice((1, 1, 2)),
            is_cron=rng.random() < 0.5,
            overlap=rng.choice(("skip", "buffer_one", "buffer_all", "cancel", "kill", "allow")),
            missed=rng.choice(("last", "all", "none")),
            catch_up=rng.choice((2, 3600, 7200)),
            jitter=rng.choice((0.0, 0.0, 0.5)),
            lasts=rng.choice((3, 5, 8)),
            times=rng.choice((0, 0, 0, 2)),
            triggers=sorted(rng.random() * 4 for _ in range(rng.choice((0, 0, 1, 2)))),
        )
        if rng.random() < 0.25:
            plan.pauses_at = rng.random() * 3
        scenario.schedules.append(plan)


def definitions(scenario: Scenario, beginning: datetime) -> dict[str, Definition]:
    """What every worker declares."""
    return {plan.name: _schedule(plan, beginning).definition for plan in scenario.schedules}


def _schedule(plan: SchedulePlan, beginning: datetime) -> Schedule[Any]:
    rest: dict[str, Any] = {
        "overlap": plan.overlap,
        "missed": plan.missed,
        "catch_up": plan.catch_up,
        "jitter": plan.jitter,
        "ends": beginning + timedelta(seconds=plan.lasts),
        "times": plan.times or None,
    }
    if plan.is_cron:
        return Schedule(plan.name, play(plan.plan), cron=f"*/{plan.period} * * * * *", **rest)
    return Schedule(plan.name, play(plan.plan), every=plan.period, **rest)


class SlotLedger:
    """What the store accepted of each schedule."""

    def __init__(self, world: World, store: Store) -> None:
        self._world = world
        self._store = store
        self.plans: dict[str, SchedulePlan] = {plan.name: plan for plan in world.scenario.schedules}
        self.states: dict[str, ScheduleState] = {}
        self.made: dict[str, list[str]] = {name: [] for name in self.plans}

    # -- as it happens -------------------------------------------------------------------------------------------------

    async def moved(self, move: Move, answer: Moving) -> list[str]:
        """What is wrong with a move; what follows from it is noted."""
        met = self._world.met
        if not isinstance(answer, Moved):
            met["second to decide a slot"] += 1
            return []
        after = msgspec.json.decode(move.body, type=ScheduleState)
        before, plan = self.states.get(move.name), self.plans[move.name]
        self.states[move.name] = after
        runs = [new.row.run for new in move.runs]
        problems = [f"run {run} was made by an earlier move" for run in runs if run in self.made[move.name]]
        if list(answer.made) != runs:
            problems.append(f"made {answer.made} of {runs}: a run of that id was there before")
        problems += [problem for run in runs for problem in self._misplaced(plan, run, after)]
        self.made[move.name] += runs
        if before is not None:
            problems += self._lost(plan, move, before, after)
            met["slot started"] += sum("trigger" not in run for run in runs)
            met["slot skipped"] += after.skipped - before.skipped
            met["slot missed"] += after.missed - before.missed
            met["slot buffered"] += max(0, len(after.buffered) - len(before.buffered))
        if runs and plan.overlap != "allow":
            held = [run for run in self.made[move.name] if await self._is_open(run)]
            if len(held) > 1:
                problems.append(f"overlap={plan.overlap}: {held} are open together")
        return problems

    def _misplaced(self, plan: SchedulePlan, run: str, state: ScheduleState) -> list[str]:
        """A run is named after a slot of its schedule that has come."""
        when = run.removeprefix(f"{plan.name}@")
        if when.startswith("trigger:"):
            return []
        slot = datetime.fromisoformat(when)
        if slot.timestamp() % plan.period or slot >= self._end(plan):
            return [f"{run} is not a slot"]
        if slot > self._world.clock.latest:
            return [f"{run} was made at {self._world.clock.now()}"]
        return [] if slot <= state.cursor else [f"{run} lies after the cursor, {state.cursor}"]

    def _lost(self, plan: SchedulePlan, move: Move, before: ScheduleState, after: ScheduleState) -> list[str]:
        """Every slot that the cursor passed has one fate."""
        if before.paused is not None and after.paused is None:
            return ["a resume starts a run"] if move.runs else []  # slots of the pause are over
        decided = (
            len(move.runs)
            + len(after.buffered)
            - len(before.buffered)
            + after.skipped
            - before.skipped
            + after.missed
            - before.missed
        )
        passed = len(self._grid(plan, before.cursor, after.cursor))
        if after.cursor < before.cursor:
            return [f"the cursor went back from {before.cursor} to {after.cursor}"]
        if move.by_hand and not passed:
            return [] if decided in (0, 1) else [f"{decided} starts by one trigger"]
        if decided != passed:
            return [f"{passed} slots between {before.cursor} and {after.cursor}, {decided} were decided"]
        return []

    def _grid(self, plan: SchedulePlan, after: datetime, until: datetime) -> list[datetime]:
        """The slots after one instant, up to another, by counting seconds."""
        first = int(after.timestamp()) // plan.period * plan.period + plan.period
        last = min(int(until.timestamp()), int(self._end(plan).timestamp()) - 1)
        return [datetime.fromtimestamp(second, UTC) for second in range(first, last + 1, plan.period)]

    def _end(self, plan: SchedulePlan) -> datetime:
        from tests.lab.sim.world import BEGINNING

        return BEGINNING + timedelta(seconds=plan.lasts)

    async def _is_open(self, run: str) -> bool:
        row = await self._store.get(run)
        return row is not None and not row.status.is_terminal

    # -- by hand -------------------------------------------------------------------------------------------------------

    async def handle(
        self, client: Client, plan: SchedulePlan, insist: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
    ) -> None:
        """A client triggers and pauses a schedule, once a worker has declared it; and resumes it."""
        loop = self._world.loop
        acts: list[tuple[float, str]] = [(at, "trigger") for at in plan.triggers]
        if plan.pauses_at >= 0:
            acts += [(plan.pauses_at, "pause"), (plan.pauses_at + 1.5, "resume")]
        for number, (at, verb) in enumerate(sorted(acts)):
            await asyncio.sleep(max(0.0, at - loop.time()))
            await insist(lambda verb=verb, mark=str(number): self._do(client, plan.name, verb, mark))  # type: ignore[misc]

    async def _do(self, client: Client, name: str, verb: str, mark: str) -> None:
        while True:
            try:
                handle = await schedules.get(client, name, None)
                match verb:
                    case "trigger":
                        await handle.trigger(id=mark)
                    case "pause":
                        await handle.pause("for a while")
                    case _:
                        await handle.resume()
            except ScheduleNotFound:
                await asyncio.sleep(0.3)
            except Conflict:
                return
            else:
                return

    # -- once the faults have stopped ----------------------------------------------------------------------------------

    async def unfinished(self, calm_for: float) -> tuple[list[str], list[str]]:
        """Schedules with something left to decide, and what is late."""
        left: list[str] = []
        late: list[str] = []
        for name in self.plans:
            stored = await self._store.schedule(name)
            if stored is None or stored.next_at is not None or self.states[name].buffered or self.states[name].paused:
                left.append(name)
            if stored is None or stored.next_at is None or calm_for < LATE:
                continue
            since = (self._store.clock.now() - stored.next_at).total_seconds()
            if since > LATE:
                late.append(f"schedule {name}: is due for {since:.1f} s, and nobody decides it")
        return left, late

    def verify(self) -> None:
        """In the end: every slot has been decided, and every run ended as its plan says."""
        watch = self._world.watch
        for name, plan in self.plans.items():
            state = self.states.get(name)
            if state is None:  # no worker has declared it yet
                continue
            if plan.times and state.fired > plan.times:
                watch.wrong("C7", name, f"{state.fired} runs, times={plan.times}")
            is_done = plan.times and state.fired == plan.times
            rest = self._grid(plan, state.cursor, self._end(plan))
            if rest and not is_done and not self._world.is_safety_only:
                watch.wrong("C7", name, f"{len(rest)} slots after {state.cursor} were never decided")
            for run in self.made[name]:
                self._check_end(plan, run)

    def _check_end(self, plan: SchedulePlan, run: str) -> None:
        known = self._world.watch.runs.get(run)
        end = None if known is None else known.fold.end
        if end is None or (isinstance(end, e.Cancelled) and plan.overlap in {"cancel", "kill"}):
            return
        if not isinstance(end, e.Completed):
            self._world.watch.wrong("result", run, f"ended with {end}")
        elif not agrees(msgspec.json.decode(end.value), [model(node, None) for node in plan.plan]):
            self._world.watch.wrong("result", run, f"{end.value!r} is not what its plan gives")
