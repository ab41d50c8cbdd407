"""Tasks that take their first step at once."""

from __future__ import annotations

import asyncio
import contextvars
import gc
from collections.abc import Coroutine
from typing import Any

import pytest
import uvloop

from holdfast.engine.eager_task import eager_task

WORD: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="")


async def test_a_coroutine_that_never_waits_is_over_when_its_task_is_made() -> None:
    """Promise: no pass of the event loop is needed."""

    async def instant() -> int:
        return 7

    task = eager_task(instant(), "instant")
    assert task.done()
    assert task.result() == 7


async def test_it_is_the_current_task_while_it_runs_and_the_maker_is_again_afterwards() -> None:
    """Promise: `asyncio.current_task()` is right on both sides, and so is the name."""
    maker = asyncio.current_task()
    seen: list[asyncio.Task[Any] | None] = []

    async def body() -> None:
        seen.append(asyncio.current_task())
        await asyncio.sleep(0)
        seen.append(asyncio.current_task())

    task = eager_task(body(), "body")
    assert asyncio.current_task() is maker
    await task
    assert seen == [task, task]
    assert task.get_name() == "body"


async def test_it_may_be_made_where_no_task_is_current() -> None:
    """Promise: a callback of the event loop may make one."""
    made = asyncio.get_running_loop().create_future()

    async def body() -> asyncio.Task[Any] | None:
        return asyncio.current_task()

    def callback() -> None:
        task = eager_task(body(), "body")
        made.set_result((task, task.done(), asyncio.current_task()))

    asyncio.get_running_loop().call_soon(callback)
    task, is_done, current = await made
    assert is_done
    assert current is None
    assert task.result() is task


async def test_its_context_is_a_copy() -> None:
    """Promise: it sees what its maker has set, and the maker does not see what it sets."""
    WORD.set("outer")

    async def body() -> str:
        seen = WORD.get()
        WORD.set("inner")
        return seen

    assert await eager_task(body(), "body") == "outer"
    assert WORD.get() == "outer"


async def test_it_can_be_cancelled_where_it_waits() -> None:
    """Promise: it is a task like any other from its first wait on."""
    entered: list[str] = []

    async def body() -> None:
        entered.append("entered")
        await asyncio.Event().wait()

    task = eager_task(body(), "body")
    assert entered == ["entered"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_timeout_and_a_group_work_in_its_first_step() -> None:
    """Promise: what needs the current task finds it."""

    async def one() -> int:
        return 1

    async def body() -> int:
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            task = group.create_task(one())
        return task.result()

    assert await eager_task(body(), "body") == 1


async def test_an_error_is_kept_by_the_task() -> None:
    """Promise: it does not reach the maker."""

    async def body() -> None:
        raise ValueError("broken")

    task = eager_task(body(), "body")
    with pytest.raises(ValueError, match="broken"):
        await task


async def test_a_task_factory_is_asked() -> None:
    """Promise: a loop that makes its own tasks makes this one too."""
    loop = asyncio.get_running_loop()
    made: list[asyncio.Task[Any]] = []

    def factory(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:
        made.append(asyncio.Task(work, loop=loop, **options))
        return made[-1]

    async def body() -> int:
        return 1

    loop.set_task_factory(factory)  # type: ignore[arg-type]
    try:
        task = eager_task(body(), "body")
    finally:
        loop.set_task_factory(None)
    assert made == [task]
    assert await task == 1


async def test_other_callbacks_keep_their_place() -> None:
    """Promise: what was ready before runs in the next pass, as ever."""
    order: list[str] = []

    async def body() -> None:
        order.append("body")
        await asyncio.sleep(0)
        order.append("after")

    asyncio.get_running_loop().call_soon(order.append, "callback")
    await eager_task(body(), "body")
    gc.collect()
    assert order == ["body", "callback", "after"]


def test_a_loop_that_is_not_asyncios_runs_it_as_well() -> None:
    """Promise: with uvloop it is a task like any other, at once or in the next pass."""

    async def body() -> str:
        WORD.set("inner")
        await asyncio.sleep(0)
        return WORD.get()

    async def main() -> tuple[str, str]:
        WORD.set("outer")
        return await eager_task(body(), "body", contextvars.copy_context()), WORD.get()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(main()) == ("inner", "outer")
