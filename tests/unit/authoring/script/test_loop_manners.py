"""Where a durable loop does as asyncio does: errors of callbacks, and what belongs to another loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import Any

import pytest

from holdfast.errors import NotAllowedHere
from tests.unit.authoring.script.loop_host import World


def test_a_handler_hears_of_the_errors_of_callbacks() -> None:
    """Promise: with `set_exception_handler` the author decides; without one the error is the run's."""
    heard: list[dict[str, Any]] = []
    error = ValueError("broke")

    def breaks() -> None:
        raise error

    world = World()
    with world.loop:
        world.loop.set_exception_handler(lambda _, context: heard.append(context))
        world.loop.call_soon(breaks)
        world.loop.run_ready()
        assert [context["exception"] for context in heard] == [error]
        assert not world.loop.callback_errors
        world.loop.set_exception_handler(None)
        world.loop.call_soon(breaks)
        world.loop.run_ready()
    assert list(world.loop.callback_errors) == [error]


def test_one_program_cannot_wake_another() -> None:
    """Promise: a future of one run that is set by another is refused where it is set."""
    one, other = World(), World()
    with one.loop:
        future = one.loop.create_future()
        future.add_done_callback(print)
    with other.loop, pytest.raises(NotAllowedHere, match="another run waits for"):
        future.set_result(1)


def test_the_future_of_a_thread_is_refused() -> None:
    world = World()
    with world.loop, pytest.raises(NotAllowedHere, match="wrap_future"):
        _ = asyncio.wrap_future(concurrent.futures.Future[int](), loop=world.loop)
