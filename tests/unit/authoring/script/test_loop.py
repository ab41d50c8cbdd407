"""How a durable loop is driven: entering, time, timers, budgets, errors, refusals. `World` is the host they share."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from holdfast.authoring.script.loop import DurableLoop, DurableTask, Timer
from holdfast.errors import InvalidDuration, NeverWaits, NotAllowedHere


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
        with self.loop.entered:
            task = self.loop.create_task(coro, context=contextvars.Context())
        self.go()
        return task

    def start(self, coro: Coroutine[Any, Any, Any]) -> None:
        """As `run`, for tests that must not hold the task."""
        _ = self.run(coro)

    def go(self) -> None:
        self.loop.begin_turn(self.loop.now)
        with self.loop.entered:
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
        return self.loop.unwind(self.pending.values(), Unwound)


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


def running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


# ------------------------------------------------------------------------------------------------------------ entering


@pytest.mark.parametrize("outer", OUTER)
def test_entering_puts_back_whatever_was_running(outer: Callable[[Callable[[], None]], None]) -> None:
    """Contract: inside, the program finds its own loop, task and hooks; outside, the worker finds its own again."""

    def check() -> None:
        around, hooks = running(), sys.get_asyncgen_hooks()
        current = None if around is None else asyncio.current_task()
        world = World()
        seen: list[Any] = []

        async def program() -> None:
            seen.extend([asyncio.get_running_loop(), asyncio.current_task(), sys.get_asyncgen_hooks() != hooks])

        task = world.run(program())
        assert seen == [world.loop, task, True]
        assert running() is around
        assert sys.get_asyncgen_hooks() == hooks
        assert current is (None if around is None else asyncio.current_task())
        with pytest.raises(ZeroDivisionError), world.loop.entered:
            _ = 1 / 0
        assert running() is around
        assert current is (None if around is None else asyncio.current_task())

    outer(check)


def test_a_loop_is_not_entered_twice() -> None:
    world = World()
    with world.loop.entered:
        assert world.loop.is_running()
        with pytest.raises(RuntimeError, match="already running"), world.loop.entered:
            pass
        assert asyncio.get_running_loop() is world.loop
    assert not world.loop.is_running()


def test_a_program_inside_a_program_has_its_own_loop() -> None:
    inner = World()

    async def outer_program(world: World) -> bool:
        async def inner_program() -> asyncio.AbstractEventLoop:
            return asyncio.get_running_loop()

        return inner.run(inner_program()).result() is inner.loop and asyncio.get_running_loop() is world.loop

    assert result_of(outer_program)


# ------------------------------------------------------------------------------------------------------ time and timers


def test_time_moves_only_when_the_host_moves_it() -> None:
    world = World()
    world.loop.now = 17.0

    async def program() -> list[float]:
        times = [world.loop.time()]
        await asyncio.sleep(5)
        return [*times, world.loop.time()]

    task = world.run(program())
    assert not task.done()
    world.advance(5)
    assert task.result() == [17.0, 22.0]


def test_a_timer_is_told_with_its_number_kind_and_time() -> None:
    world = World()

    async def program() -> None:
        world.loop.call_later(3, lambda: None)
        async with asyncio.timeout(9):
            await asyncio.sleep(4)

    world.start(program())
    told = [(timer.number, timer.kind, timer.when_at) for timer in world.told_of]
    assert told == [(1, "timer", 3.0), (2, "timer", 9.0), (3, "sleep", 4.0)]


@pytest.mark.parametrize("delay", [0, -1])
def test_a_due_timer_runs_soon_and_the_host_never_hears_of_it(delay: float) -> None:
    """Contract: also its cancellation is kept from the host."""
    world = World()
    ran: list[str] = []

    async def program() -> None:
        world.loop.call_soon(ran.append, "before")
        world.loop.call_later(delay, ran.append, "due")
        world.loop.call_soon(ran.append, "after")
        world.loop.call_at(world.loop.time() + delay, ran.append, "cancelled").cancel()

    world.start(program())
    assert ran == ["before", "due", "after"]
    assert not world.loop.callback_errors
    assert world.told_of == []
    assert world.cancelled == []


def test_a_cancelled_timer_is_reported_once_and_never_fires() -> None:
    world = World()
    ran: list[int] = []
    timer = world.loop.call_later(1, ran.append, 1)
    timer.cancel()
    timer.cancel()
    assert world.cancelled == [timer]
    world.loop.fire(timer)
    assert world.loop.idle
    world.go()
    assert ran == []


def test_a_timer_fires_once_and_its_later_cancellation_is_silent() -> None:
    world = World()
    ran: list[int] = []
    timer = world.loop.call_later(1, ran.append, 1)
    world.loop.fire(timer)
    world.loop.fire(timer)
    assert not world.loop.idle
    world.go()
    assert world.loop.idle
    world.loop.fire(timer)
    timer.cancel()
    world.go()
    assert ran == [1]
    assert world.cancelled == []


def test_timers_of_equal_time_are_different_timers() -> None:
    world = World()
    one, two = (world.loop.call_at(5, print) for _ in range(2))
    assert one != two
    assert len({one: 1, two: 2}) == 2


def test_a_timer_without_a_time_is_refused() -> None:
    with pytest.raises(InvalidDuration, match="NaN"):
        World().loop.call_later(float("nan"), print)
    assert World().loop.call_later(float("inf"), print).when_at == float("inf")


# -------------------------------------------------------------------------------------------------------------- running


def test_a_program_that_never_waits_is_stopped_where_it_spins() -> None:
    """Contract: the message names the author's line, not asyncio's."""
    world = World(budget=500)

    async def spin() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)  # the line to be named

    with pytest.raises(NeverWaits) as stopped:
        world.start(spin())
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    line = next(number for number, text in enumerate(source, 1) if "the line to be named" in text)
    assert f"{Path(__file__).name}:{line}" in str(stopped.value)
    assert "500" in str(stopped.value)
    assert world.unwind()


def test_the_budget_is_per_activation() -> None:
    world = World(budget=20)

    async def program() -> None:
        for number in range(100):
            await world.step(str(number))

    task = world.run(program())
    for number in range(100):
        world.resolve(str(number))
    assert task.done()


def test_the_budget_counts_all_of_an_activation() -> None:
    world = World(budget=20)
    for _ in range(15):
        world.loop.call_soon(int)
    with world.loop.entered:
        world.loop.run_ready()
        for _ in range(15):
            world.loop.call_soon(int)
        with pytest.raises(NeverWaits):
            world.loop.run_ready()


def test_each_callback_runs_in_its_context() -> None:
    world = World()
    variable = contextvars.ContextVar("variable", default="none")
    seen: list[str] = []

    def look() -> None:
        seen.append(variable.get())
        variable.set("leaked")

    async def program() -> None:
        variable.set("task")
        world.loop.call_soon(look)
        world.loop.call_soon(look)
        world.loop.call_soon(look, context=contextvars.Context())
        world.loop.call_later(1, look)
        variable.set("later")

    world.start(program())
    world.advance(1)
    assert seen == ["task", "task", "none", "task"]
    assert variable.get() == "none"


def test_a_callback_error_is_kept_for_the_host_and_stops_nothing() -> None:
    world = World()
    ran: list[int] = []
    world.loop.call_soon(int, "x")
    world.loop.call_soon(sys.exit)
    world.loop.call_soon(ran.append, 1)
    world.go()
    assert ran == [1]
    assert [type(error) for error in world.loop.callback_errors] == [ValueError, SystemExit]


def test_an_interrupt_reaches_the_worker() -> None:
    world = World()

    def interrupt() -> None:
        raise KeyboardInterrupt

    world.loop.call_soon(interrupt)
    with pytest.raises(KeyboardInterrupt):
        world.go()
    assert running() is None


def test_sys_exit_in_a_workflow_ends_the_run_not_the_worker() -> None:
    world = World()

    async def program() -> None:
        sys.exit(3)

    assert isinstance(world.run(program()).exception(), SystemExit)


def test_exception_handlers_are_asyncios() -> None:
    world = World()
    handled: list[dict[str, Any]] = []
    assert world.loop.get_exception_handler() is None
    world.loop.call_exception_handler({"message": "first"})
    world.loop.set_exception_handler(lambda _loop, context: handled.append(context))
    world.loop.call_exception_handler({"message": "second"})
    world.loop.set_exception_handler(lambda _loop, context: context["nothing"])
    world.loop.call_exception_handler({"message": "third"})
    assert [context["message"] for context in handled] == ["second"]
    assert [type(error) for error in world.loop.callback_errors] == [RuntimeError, KeyError]


def test_debug_can_be_set_and_read() -> None:
    world = World()
    assert not world.loop.get_debug()
    world.loop.set_debug(True)
    assert world.loop.get_debug()

    async def program() -> int:
        await asyncio.sleep(0)
        return len(await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0)))

    assert world.run(program()).result() == 2


def test_an_error_nobody_looks_at_is_not_printed(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Contract: what a finaliser reports, at whatever moment, reaches neither stderr, nor the log, nor the program."""
    world = World()
    heard: list[Any] = []
    world.loop.set_exception_handler(lambda _loop, context: heard.append(context))

    async def program() -> None:
        async def fail() -> None:
            raise ValueError("nobody looks")

        keep = asyncio.create_task(fail())
        world.loop.create_future().set_exception(ValueError("nor here"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        del keep

    world.start(program())
    assert world.unwind()
    gc.collect()
    assert heard == []
    assert not world.loop.callback_errors
    assert capfd.readouterr().err == ""
    assert caplog.records == []


# -------------------------------------------------------------------------------------------------------------- threads


def label(text: str, *, size: int = 1) -> str:
    raise AssertionError(f"a step's body never runs in the program: {text} {size}")


def test_a_step_given_to_a_thread_reaches_the_host_with_its_arguments() -> None:
    world = World()
    world.steps[label] = "label"

    async def program() -> Any:
        direct = asyncio.get_running_loop().run_in_executor(None, label, "c")
        assert asyncio.isfuture(direct)
        return await asyncio.gather(
            direct,
            asyncio.get_running_loop().run_in_executor(None, functools.partial(label, "d", size=4)),
            asyncio.to_thread(label, "a", size=2),
            asyncio.to_thread(functools.partial(label, "b"), size=3),
        )

    task = world.run(program())
    expected = ["label('c',){}", "label('d',){'size': 4}", "label('a',){'size': 2}", "label('b',){'size': 3}"]
    assert world.asked == expected
    for number, name in enumerate(expected):
        world.resolve(name, number)
    assert task.result() == [0, 1, 2, 3]


def test_any_other_function_given_to_a_thread_is_refused() -> None:
    world = World()
    world.steps[label] = "label"

    async def program() -> None:
        with pytest.raises(NotAllowedHere, match=r"to_thread\) of label2 .*wrap it in a step"):
            await asyncio.to_thread(label2, "a")
        with pytest.raises(NotAllowedHere, match="wrap it in a step"):
            await asyncio.get_running_loop().run_in_executor(object(), label, "a")  # type: ignore[arg-type]

    def label2(text: str) -> str:
        return text

    label2.__qualname__ = "label2"
    world.run(program()).result()


# ------------------------------------------------------------------------------------------------------------- refusals

WRITTEN = {
    "call_at", "call_exception_handler", "call_later", "call_soon", "create_future", "create_task",
    "default_exception_handler", "get_debug", "get_exception_handler", "get_task_factory", "is_closed", "is_running",
    "run_in_executor", "set_debug", "set_exception_handler", "time",
}  # fmt: skip
REFUSED = sorted(name for name in dir(asyncio.AbstractEventLoop) if name[0] != "_" and name not in WRITTEN)


def test_no_method_of_asyncios_loop_is_forgotten() -> None:
    """Contract: each is written or refused; none is left to raise a bare NotImplementedError."""
    inherited = [
        name
        for name in dir(asyncio.AbstractEventLoop)
        if not name.startswith("__") and getattr(DurableLoop, name) is getattr(asyncio.AbstractEventLoop, name)
    ]
    assert inherited == []


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_method_is_named_and_says_what_to_do(name: str) -> None:
    with pytest.raises(NotAllowedHere, match=rf"loop\.{name}\(\).*wrap it in a step"):
        getattr(World().loop, name)("some", 1, argument=2)


def test_what_asyncio_builds_on_a_refused_method_is_refused() -> None:
    async def program(_world: World) -> None:
        with pytest.raises(NotAllowedHere, match="create_connection"):
            await asyncio.open_connection("localhost", 80)
        with pytest.raises(NotAllowedHere, match="subprocess_exec"):
            await asyncio.create_subprocess_exec("true")

    result_of(program)


def test_another_thread_cannot_reach_in() -> None:
    world = World()
    errors: list[BaseException] = []

    def reach() -> None:
        try:
            world.loop.call_soon_threadsafe(print)
        except NotAllowedHere as error:
            errors.append(error)

    thread = threading.Thread(target=reach)
    thread.start()
    thread.join()
    assert len(errors) == 1
    assert world.loop.idle
