"""Makes a durable loop the running one for a while.

A program is activated by a plain call, usually from a task of the worker's own loop. During the call, the author's code
must find its own loop, current task and hooks for async generators. Afterwards the worker's are restored, even if the
activation raised.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Any

from holdfast.authoring.script import _stdlib
from holdfast.authoring.script._refused import Refusals


class Enterable(Refusals):
    """A loop that runs within `with loop:`, a reusable block, not a re-entrant one."""

    is_entered: bool = False
    _outer: asyncio.AbstractEventLoop | None = None
    _outer_task: asyncio.Task[Any] | None = None

    def generator_begun(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Python's hook for the first iteration of an async generator."""
        raise NotImplementedError

    def __enter__(self) -> None:
        if self.is_entered:
            raise RuntimeError("this workflow loop is already running: an activation cannot start another one")
        self.is_entered = True
        self._outer = _stdlib.get_running_loop()
        # The outer task is not current while ours run; from 3.14 on a thread has one current task, not one per loop.
        self._outer_task = None if self._outer is None else asyncio.current_task(self._outer)
        if self._outer is not None and self._outer_task is not None:
            _stdlib.leave_task(self._outer, self._outer_task)
        self._hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(self.generator_begun, _dropped)
        _stdlib.set_running_loop(self)

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _stdlib.set_running_loop(self._outer)
        sys.set_asyncgen_hooks(*self._hooks)
        if self._outer is not None and self._outer_task is not None:
            _stdlib.enter_task(self._outer, self._outer_task)
        self._outer = self._outer_task = None
        self.is_entered = False


def _dropped(generator: AsyncGenerator[Any, Any]) -> None:
    """Does nothing, on purpose: Python then drops the generator without running more of the author's code."""
