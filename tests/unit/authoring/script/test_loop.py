"""How a durable loop is driven: entering, time, timers, budgets, errors."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import InvalidDuration, NeverWaits
from tests.unit.authoring.script.loop_host import (
    OUTER,
    World,
    result_of,
)


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
        with pytest.raises(ZeroDivisionError), world.loop:
            _ = 1 / 0
        assert running() is around
        assert current is (None if around is None else asyncio.current_task())

    outer(check)


def test_a_loop_is_not_entered_twice() -> None:
    world = World()
    with world.loop:
        assert world.loop.is_running()
        with pytest.raises(RuntimeError, match="already running"), world.loop:
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
    with world.loop:
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
