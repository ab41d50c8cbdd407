"""A task whose first step is taken at once: a coroutine that never waits is over when it is made.

It is a real task of asyncio: it is the current one while it runs, has a context of its own, and can be cancelled. Where
the event loop does not allow it, the task begins in the loop's next pass: one with a task factory of its own, and on
Python 3.11 one that is not asyncio's.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from contextvars import Context
from typing import Any, TypeVar

from holdfast.authoring.script import _stdlib

T = TypeVar("T")


def eager_task(coro: Coroutine[Any, Any, T], name: str, context: Context | None = None) -> asyncio.Task[T]:
    """The task, made by the running event loop."""
    loop = asyncio.get_running_loop()
    if loop.get_task_factory() is not None:
        return loop.create_task(coro, name=name, context=context)
    if sys.version_info >= (3, 12):
        return asyncio.Task(coro, loop=loop, name=name, context=context, eager_start=True)
    task = loop.create_task(coro, name=name, context=context)
    first = _stdlib.taken_step(loop, task)
    if first is not None:
        outer = asyncio.current_task(loop)
        if outer is not None:
            _stdlib.leave_task(loop, outer)
        try:
            first._run()
        finally:
            if outer is not None:
                _stdlib.enter_task(loop, outer)
    return task
