"""What a durable loop refuses, and the advice it gives."""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import Any

import pytest

from holdfast.authoring.script.loop import DurableLoop
from holdfast.errors import NotAllowedHere
from tests.unit.authoring.script.loop_host import (
    World,
    result_of,
)


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
