"""The private parts of asyncio that the loop needs, in one place and with their types.

All of them exist in every Python from 3.11 on; a version that drops one fails here, at import. Nothing else in the
package reaches below asyncio's public names.
"""

from __future__ import annotations

import asyncio
import asyncio.events
import asyncio.futures
import asyncio.tasks
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

Loop = asyncio.AbstractEventLoop

get_running_loop: Callable[[], Loop | None] = vars(asyncio.events)["_get_running_loop"]
set_running_loop: Callable[[Loop | None], None] = vars(asyncio.events)["_set_running_loop"]

register_task: Callable[[object], None] = vars(asyncio.tasks)["_register_task"]
unregister_task: Callable[[object], None] = vars(asyncio.tasks)["_unregister_task"]
enter_task: Callable[[Loop, asyncio.Task[Any]], None] = vars(asyncio.tasks)["_enter_task"]
leave_task: Callable[[Loop, asyncio.Task[Any]], None] = vars(asyncio.tasks)["_leave_task"]

#: What `asyncio.sleep` gives to `call_later`.
wakes_sleeper: Callable[..., None] = vars(asyncio.futures)["_set_result_unless_cancelled"]

#: What `asyncio.gather` returns: a Python class that asyncio builds itself, without asking the loop.
GatheringFuture: type[asyncio.Future[Any]] = vars(asyncio.tasks)["_GatheringFuture"]


#: `sys._getframe`: 1 is the caller of the function that asks.
caller_frame: Callable[[int], FrameType] = vars(sys)["_getframe"]


def _code(function: object) -> CodeType:
    code: CodeType = vars(type(function))["__code__"].__get__(function)
    return code


GATHERING_INIT = _code(vars(GatheringFuture)["__init__"])
WRAP_FUTURE = _code(vars(asyncio.futures)["wrap_future"])
WAIT = _code(vars(asyncio.tasks)["_wait"])
ENSURE_FUTURE = {
    _code(vars(asyncio.tasks)[name]) for name in ("ensure_future", "_ensure_future") if name in vars(asyncio.tasks)
}

#: Where asyncio's own sources lie: an author looks for a line in their file, not in here.
ASYNCIO_FILES = str(asyncio.events.__file__).removesuffix("events.py")


def waiter_of(task: asyncio.Task[Any]) -> Any:
    """What the task waits for: a future, another task, or None if it is running, ready or done."""
    return getattr(task, "_fut_waiter", None)
