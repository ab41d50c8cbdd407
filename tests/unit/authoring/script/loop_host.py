"""A host for a durable loop that records what a program asks for."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any

import uvloop

from holdfast.authoring.script.loop import DurableLoop, DurableTask, Timer


class Unwound(BaseException):
    """The private exception a program is closed with."""


class StepCall(Coroutine[Any, Any, Any]):
    """What calling a step gives: a coroutine written in Python, with a hash that replays."""

    def __init__(self, world: World, name: str) -> None:
        self.number = len(world.asked)
        world.asked.append(name)
        self._run = world.outcome(name)

    def __hash__(self) -> int:
        return self.number

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._run.__await__()

    def send(self, value: Any, /) -> Any:
        return self._run.send(value)

    def throw(self, *error: Any) -> Any:
        return self._run.throw(*error)

    def close(self) -> None:
        self._run.close()


class World:
    """A host without a journal: outcomes and time come when the test says so."""

    def __init__(self, *, budget: int = 100_000) -> None:
        self.loop = DurableLoop(self, budget=budget)
        self.timers: list[Timer] = []
        self.told_of: list[Timer] = []
        self.cancelled: list[Timer] = []
        self.asked: list[str] = []
        self.performed: list[str] = []
        self.pending: dict[str, asyncio.Future[Any]] = {}
        self.steps: dict[Callable[..., Any], str] = {}
        self.trace: list[Any] = []

    # the host's half

    def timer_set(self, timer: Timer) -> None:
        self.timers.append(timer)
        self.told_of.append(timer)

    def timer_cancelled(self, timer: Timer) -> None:
        self.timers.remove(timer)
        self.cancelled.append(timer)

    def call_step(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Awaitable[Any] | None:
        if function not in self.steps:
            return None
        return StepCall(self, f"{self.steps[function]}{args}{kwargs}")

    # the author's half

    def step(self, name: str) -> StepCall:
        return StepCall(self, name)

    async def outcome(self, name: str) -> Any:
        future = self.loop.outcome_future()
        if not self.loop.unwinding:
            self.performed.append(name)
            self.pending[name] = future
        return await future

    # the test's half

    def run(self, coro: Coroutine[Any, Any, Any]) -> DurableTask[Any]:
        with self.loop:
            task = self.loop.create_task(coro, context=contextvars.Context())
        self.go()
        return task

    def start(self, coro: Coroutine[Any, Any, Any]) -> None:
        """As `run`, for tests that must not hold the task."""
        _ = self.run(coro)

    def go(self) -> None:
        self.loop.begin_turn(self.loop.now)
        with self.loop:
            self.loop.run_ready()

    def resolve(self, name: str, value: Any = None) -> None:
        future = self.pending.pop(name)
        if not future.done():
            future.set_result(value)
        self.go()

    def advance(self, seconds: float) -> None:
        until = self.loop.now + seconds
        while due := [timer for timer in self.timers if timer.when_at <= until]:
            first = min(due, key=lambda timer: (timer.when_at, timer.number))
            self.timers.remove(first)
            self.loop.now = max(self.loop.now, first.when_at)
            self.loop.fire(first)
            self.go()
        self.loop.now = until

    def unwind(self) -> bool:
        return self.loop.unwind(self.pending.values, Unwound)


def result_of(program: Callable[[World], Coroutine[Any, Any, Any]]) -> Any:
    world = World()
    return world.run(program(world)).result()


def on_nothing(test: Callable[[], None]) -> None:
    test()


def on_asyncio(test: Callable[[], None]) -> None:
    async def main() -> None:
        test()

    asyncio.run(main())


def on_asyncio_debug(test: Callable[[], None]) -> None:
    async def main() -> None:
        test()

    asyncio.run(main(), debug=True)


def on_uvloop(test: Callable[[], None]) -> None:
    async def main() -> None:
        test()

    uvloop.run(main())


OUTER = [on_nothing, on_asyncio, on_asyncio_debug, on_uvloop]
