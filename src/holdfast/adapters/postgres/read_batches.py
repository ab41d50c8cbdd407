"""Combines all reads by name in one pass of an event loop into one query: thousands of callers may each wait for a run,
and all of them look when something changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

A = TypeVar("A")
Answers: TypeAlias = Mapping[str, A]


class Gathered(Generic[A]):
    """Usable from any number of event loops, on each of them from its thread."""

    def __init__(self, ask: Callable[[Sequence[str]], Coroutine[Any, Any, Answers[A]]]) -> None:
        self._ask = ask
        self._open: dict[asyncio.AbstractEventLoop, tuple[set[str], asyncio.Task[Answers[A]]]] = {}

    async def get(self, name: str) -> A | None:
        """The answer for this name; None if the server has none."""
        loop = asyncio.get_running_loop()
        if loop not in self._open:
            task = loop.create_task(self._answered(loop))  # begins when everybody else of this pass has asked
            task.add_done_callback(_looked_at)
            self._open[loop] = (set(), task)
        names, task = self._open[loop]
        names.add(name)
        return (await asyncio.shield(task)).get(name)  # who gives up takes nothing from the others

    async def _answered(self, loop: asyncio.AbstractEventLoop) -> Answers[A]:
        names, _ = self._open.pop(loop)
        return await self._ask(list(names))


def _looked_at(task: asyncio.Task[Any]) -> None:
    """Reads the error of a finished query, so that it is not reported when every caller has left."""
    if not task.cancelled():
        task.exception()
