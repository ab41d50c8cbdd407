"""The demo from the first line to the verdict: a worker is killed in the middle of its work, another finishes it."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.app import App
from holdfast.authoring.handle import Run
from holdfast.cli.demo import demo_app
from holdfast.cli.demo.demo_stage import Stage, WorkerProcess
from holdfast.cli.demo.screen import Screen
from holdfast.cli.demo.verdict import Kill, Picture, StepId, Verdict, judge, listed
from holdfast.cli.demo.watch import Watch
from holdfast.cli.targets import CommandError
from holdfast.config import Configuration
from holdfast.errors import HoldfastError

LOOK = 0.03
"""Seconds between two checks."""

PATIENCE = 90.0
"""Seconds after which the demo gives up."""


@dataclass(frozen=True, slots=True)
class Point:
    """Where the first worker is killed: while `key` is in flight, after `done` has completed."""

    key: str
    done: str
    attempt: int = 1
    is_before_approval: bool = False


POINTS = (
    Point("charge", "reserve", attempt=2, is_before_approval=True),
    Point("warehouse", "email", is_before_approval=True),
    Point("pack", "warehouse"),
    Point("collect", "pack"),
)


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that the seed decides, and the speed."""

    seed: int
    point: Point
    after: float
    pace: float
    lease: float

    @property
    def run(self) -> str:
        """The id of the order's run."""
        return f"order-{self.seed}"

    @property
    def order(self) -> demo_app.Order:
        return demo_app.Order(str(self.seed), 4200)


def plan_for(seed: int, *, is_fast: bool) -> Plan:
    """The plan for a seed, always the same."""
    rng = random.Random(seed)
    pace, lease = (0.3, 1.0) if is_fast else (1.0, 2.0)
    return Plan(seed, rng.choice(POINTS), rng.uniform(0.05, 0.3), pace, lease)


def new_seed(*, is_in_order: bool) -> int:
    """A random seed. With `is_in_order` it kills the worker in a step of the order itself, which its page shows, not in
    a step of the child run."""
    while True:
        seed = random.randrange(1000)
        if not is_in_order or plan_for(seed, is_fast=True).point.is_before_approval:
            return seed


@dataclass(slots=True)
class Shown:
    """A verdict, and the names of the steps."""

    verdict: Verdict
    names: dict[StepId, str]


class Story:
    """One run of the demo."""

    def __init__(self, plan: Plan, stage: Stage, screen: Screen) -> None:
        self._plan = plan
        self._stage = stage
        self._screen = screen

    async def tell(self) -> Shown:
        try:
            async with App(self._stage.url, workflows=[demo_app.fulfil, demo_app.ship], config=Configuration()) as app:
                async with asyncio.timeout(PATIENCE):
                    return await self._tell(app)
        except TimeoutError:
            raise CommandError(f"the order was not finished after {PATIENCE:g} s: is this machine very busy?") from None

    async def _tell(self, app: App) -> Shown:
        plan = self._plan
        run = await app.start(demo_app.fulfil(plan.order), id=plan.run)
        watch = self._watch = Watch(await app.client(), run.id, self._screen)
        watch.say("", f"{run.id} started; no worker is there yet")
        first = self._worker("worker-1")
        if not plan.point.is_before_approval:
            await self._until(lambda: watch.is_waiting_for("signal"), first)
            await self._pass(0.8)
            await self._approve(run, "signal approved sent")
        kill = await self._kill(first)
        watch.outage = f"held by the dead {first.name} until its lease of {plan.lease:g} s has run out"
        await self._pass(0.5)
        if plan.point.is_before_approval:
            await self._approve(run, "signal approved sent; no worker: the store keeps it")
        second = self._worker("worker-2")
        watch.say(second.name, "started; waits for the dead one's lease to run out")
        await self._until(lambda: watch.holder == second.name, second)
        watch.outage = ""
        result = await self._result(run, second)
        end = await watch.picture(self._stage.notes())
        verdict = judge(kill, end, result, demo_app.expected(plan.order), signal.SIGKILL)
        return Shown(verdict, {step: watch.name_of(step) for step in end.steps})

    # -- acts ----------------------------------------------------------------------------------------------------------

    def _worker(self, name: str) -> WorkerProcess:
        worker = self._stage.worker(name)
        self._watch.pids[name] = worker.pid
        return worker

    async def _approve(self, run: Run[str], text: str) -> None:
        await run.signal(demo_app.approved, True)
        self._watch.say("", text, "bold")

    async def _kill(self, worker: WorkerProcess) -> Kill:
        """Kills the worker at the point that the seed chose or, if the machine was too slow for it, at the next
        chance."""
        watch = self._watch
        await self._until(self._is_due, worker)
        await self._pass(self._plan.after)
        worker.freeze()
        while not (flying := self._in_flight()):
            worker.thaw()
            await self._until(lambda: bool(self._in_flight()) or watch.has_ended, worker)
            if watch.has_ended:
                raise CommandError(
                    "the order was finished before its worker could be killed: is this machine very busy?"
                )
            worker.freeze()
        code = worker.kill()
        await watch.look()
        names = listed(watch.name_of(step) for step in flying)
        watch.mark(f"SIGKILL: {worker.name} ({worker.pid}) is dead, {names} in flight")
        return Kill(worker.pid, code, await watch.picture(self._stage.notes()))

    def _is_due(self) -> bool:
        point, notes = self._plan.point, self._stage.notes()
        is_begun = any(note.key == point.key and note.attempt >= point.attempt for note in notes)
        return is_begun and self._watch.has_completed(point.done)

    def _in_flight(self) -> list[StepId]:
        return Picture(self._stage.notes(), {}).in_flight

    async def _result(self, run: Run[str], worker: WorkerProcess) -> str:
        ending = asyncio.create_task(run.result())
        try:
            await self._until(ending.done, worker)
            await self._watch.look()
            return ending.result()
        except HoldfastError as error:
            return f"{type(error).__name__}: {error}"
        finally:
            ending.cancel()

    # -- waiting -------------------------------------------------------------------------------------------------------

    async def _until(self, holds: Callable[[], bool], worker: WorkerProcess) -> None:
        """Watches until the condition holds, as long as the worker it depends on is alive."""
        while not holds():
            if worker.exit_code is not None:
                raise CommandError(f"{worker.name} ended by itself ({worker.exit_code}): {worker.last_words}")
            await self._watch.look()
            await asyncio.sleep(LOOK)

    async def _pass(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds * self._plan.pace
        while (left := until - loop.time()) > 0:
            await self._watch.look()
            await asyncio.sleep(min(left, LOOK))
