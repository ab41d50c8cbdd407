"""Closing a program before its end: nothing more is done, nothing is printed, nothing is left to the collector."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import subprocess
import sys
import textwrap
import warnings
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from holdfast.authoring.script.loop import DurableFuture, graveyard_size
from holdfast.errors import NeverWaits, NotInRun
from tests.unit.authoring.script.ending_programs import (
    ENDS,
    Program,
    Refund,
    catches_often,
    finally_await,
    ignores_cancellation,
    refund,
)
from tests.unit.authoring.script.loop_host import OUTER, StepCall, Unwound, World


@pytest.fixture(autouse=True)
def only_new_garbage() -> None:
    """These tests collect garbage again and again: theirs alone, not what other tests have left in the process."""
    gc.freeze()


# -------------------------------------------------------------------------------------------------- programs that end


@contextlib.contextmanager
def silence(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fails if anything was printed, logged, warned of or raised from a finaliser."""
    unraisable: list[str] = []
    hook, sys.unraisablehook = sys.unraisablehook, lambda report: unraisable.append(repr(report))
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield
            for _ in range(3):
                gc.collect()
    finally:
        sys.unraisablehook = hook
    assert unraisable == []
    assert [str(warning.message) for warning in warned] == []
    assert capfd.readouterr() == ("", "")
    assert [record.message for record in caplog.records if "Executing" not in record.message] == []


@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("program", ENDS)
def test_a_closed_program_does_nothing_more(
    program: Program,
    outer: Callable[[Callable[[], None]], None],
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Contract: no step is performed, no timer told of, no refund made, neither at closing nor when memory is freed."""
    Refund.made = 0

    def check() -> None:
        world = World(budget=5_000)
        with contextlib.suppress(NeverWaits):
            world.start(program(world))
        before, buried = (len(world.performed), len(world.told_of), len(world.cancelled)), graveyard_size()
        assert world.unwind()
        assert (len(world.performed), len(world.told_of), len(world.cancelled)) == before
        assert world.loop.is_closed()
        assert world.loop.idle
        assert world.loop.unfinished_tasks() == []
        assert not world.loop.unwinding
        assert graveyard_size() == buried
        freed = weakref.ref(world.loop)
        del world
        gc.collect()
        assert freed() is None

    with silence(capfd, caplog):
        outer(check)
    assert Refund.made == 0


class RaisingWorld(World):
    """A host whose verbs raise at once while the program unwinds."""

    def step(self, name: str) -> StepCall:
        if self.loop.unwinding:
            raise Unwound
        return super().step(name)


@pytest.mark.parametrize("program", [program for program in ENDS if program is not ignores_cancellation])
def test_a_host_may_also_raise_from_its_verbs(program: Program) -> None:
    Refund.made = 0
    world = RaisingWorld(budget=5_000)
    with contextlib.suppress(NeverWaits):
        world.start(program(world))
    assert world.unwind()
    assert Refund.made == 0


def test_the_stream_of_a_program_nobody_closed_runs_no_code_when_collected() -> None:
    trace: list[str] = []

    async def program(world: World) -> None:
        async def stream() -> AsyncIterator[int]:
            try:
                yield 1
            finally:
                trace.append("stream")

        one = stream()
        await anext(one)
        await world.step("charge")

    world = World()
    world.start(program(world))
    del world
    gc.collect()
    assert trace == []


def test_the_author_sees_the_private_exception_first_and_then_cancellation_in_turns() -> None:
    world = World()
    world.start(catches_often(world))
    assert world.unwind()
    assert world.trace[:4] == [Unwound, asyncio.CancelledError, Unwound, asyncio.CancelledError]
    assert len(world.trace) == 50


def test_tasks_are_ended_in_the_order_they_were_created() -> None:
    world = World()

    async def program() -> None:
        async def waits(number: int) -> None:
            try:
                await world.step(str(number))
            finally:
                world.trace.append(number)

        await asyncio.gather(*(waits(number) for number in range(20)))

    world.start(program())
    assert world.loop.unwind(list, Unwound)
    assert world.trace == list(range(20))


def test_streams_end_after_the_tasks_and_in_the_order_they_began() -> None:
    world = World()

    async def program() -> None:
        async def stream(name: str) -> AsyncIterator[None]:
            try:
                yield
            finally:
                world.trace.append(name)

        streams = [stream(name) for name in "abc"]
        for one in reversed(streams):
            await anext(one)
        try:
            await world.step("charge")
        finally:
            world.trace.append("program")

    world.start(program())
    assert world.unwind()
    assert world.trace == ["program", "c", "b", "a"]


def test_finished_tasks_and_streams_are_let_go() -> None:
    """Contract: a long program keeps what is unfinished, not what it ever made."""
    world = World()
    freed: list[weakref.ref[Any]] = []

    async def program() -> None:
        async def stream() -> AsyncIterator[int]:
            yield 1

        for _ in range(200):
            one = stream()
            freed.append(weakref.ref(one))
            async for _ in one:
                pass
            task = asyncio.create_task(asyncio.sleep(0))
            freed.append(weakref.ref(task))
            await task
        await world.step("charge")

    world.start(program())
    gc.collect()
    assert sum(reference() is not None for reference in freed) <= 40
    assert world.unwind()


# ----------------------------------------------------------------------------------------------- programs that refuse


async def refuses(world: World) -> None:
    while True:
        with contextlib.suppress(BaseException):
            world.trace.append(1)
            await world.step("charge")


async def refuses_spinning(_world: World) -> None:
    while True:
        with contextlib.suppress(BaseException):
            await asyncio.sleep(0)


async def stubborn_stream(_world: World) -> AsyncIterator[int]:
    while True:
        with contextlib.suppress(BaseException):
            yield 1


async def holds_a_stubborn_stream(world: World) -> None:
    one = stubborn_stream(world)
    await anext(one)
    await world.step("charge")


async def waits_in_a_ring(world: World) -> None:
    """asyncio itself cannot cancel tasks that wait for each other: it recurses."""
    tasks: list[asyncio.Task[None]] = []

    async def wait_for_the_other(index: int) -> None:
        try:
            await tasks[index]
        finally:
            await refund(world)

    tasks.extend(asyncio.create_task(wait_for_the_other(index)) for index in (1, 0))
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("program", [refuses, refuses_spinning, holds_a_stubborn_stream, waits_in_a_ring])
def test_a_program_that_refuses_is_kept_and_counted(
    program: Program,
    outer: Callable[[Callable[[], None]], None],
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    def check() -> None:
        world = World(budget=5_000)
        with contextlib.suppress(NeverWaits):
            world.start(program(world))
        buried = graveyard_size()
        assert not world.unwind()
        assert graveyard_size() == buried + 1
        assert world.loop.is_closed()
        kept = weakref.ref(world.loop)
        if program is refuses:
            assert len(world.trace) == 1_001
        del world
        gc.collect()
        assert kept() is not None

    with silence(capfd, caplog):
        outer(check)


def test_a_buried_program_does_not_speak_when_the_process_ends() -> None:
    code = """
        import asyncio
        from tests.unit.authoring.script.loop_host import World
        from tests.unit.authoring.script.test_loop_closing import holds_a_stubborn_stream, refuses
        for program in (refuses, holds_a_stubborn_stream):
            world = World()
            world.run(program(world))
            assert not world.unwind()
    """
    path = [entry for entry in sys.path if entry]
    ended = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n" + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


# ------------------------------------------------------------------------------------------------------- after closing


def closed_world() -> tuple[World, list[DurableFuture[Any]]]:
    world = World()
    late = [world.loop.create_future() for _ in range(2)]
    world.start(finally_await(world))
    for future in late:
        future.add_done_callback(world.trace.append)
    assert world.unwind()
    return world, late


def test_nothing_is_scheduled_on_a_closed_loop() -> None:
    world, _ = closed_world()
    with pytest.raises(NotInRun, match="call_soon"):
        world.loop.call_soon(print)
    with pytest.raises(NotInRun, match="call_at"):
        world.loop.call_later(1, print)
    with pytest.raises(NotInRun, match="create_task"):
        _ = world.loop.create_task(refund(world))
    assert world.unwind()


def test_futures_may_still_end_on_a_closed_loop(capfd: pytest.CaptureFixture[str]) -> None:
    world, (one, two) = closed_world()
    trace = list(world.trace)
    one.cancel()
    two.set_exception(ValueError("late"))
    del one, two
    gc.collect()
    assert world.trace == trace
    assert world.loop.idle
    assert capfd.readouterr().err == ""


def test_a_timer_may_still_be_cancelled_on_a_closed_loop() -> None:
    world = World()
    timer = world.loop.call_later(5, print)
    assert world.unwind()
    timer.cancel()
    assert world.cancelled == []
