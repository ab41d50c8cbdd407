"""The bodies of states, as a machine under an app and a standalone one call them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import datetime
from typing import Any

from holdfast.authoring.machine.handlers import Definition
from holdfast.authoring.machine.joins import run_branches
from holdfast.authoring.machine.marks import ItemOutcome, More, Window
from holdfast.core.durations import parse_duration
from holdfast.core.instants import instant_after, kept_instant
from holdfast.core.retry import Retry
from holdfast.errors import HoldfastError, InvalidState

ADVICE = "A body that uses the durable verbs is declared with .script instead of .state."

Tell = Callable[..., None]
FAILURES = (Exception, SystemExit)
"""Exceptions that fail an attempt. Others, such as a keyboard interrupt or a cancellation, pass through."""


async def call(function: Callable[..., Any], *args: Any) -> Any:
    """Calls a body: an `async def` here, a `def` in a thread."""
    try:
        if inspect.iscoroutinefunction(function):
            return await function(*args)
        return await asyncio.to_thread(function, *args)
    except SystemExit as error:  # left alone it would end the event loop, and with it everything else
        raise HoldfastError(f"{function.__name__} called exit: SystemExit: {error.code}") from error


async def split(definition: Definition, state: Any, tell: Tell) -> Any:
    """Runs the branches and calls the handler with what the join needs. A branch that is stopped because its outcome no
    longer matters ends silently; one that is stopped with the whole split is reported as failed, so that starts and
    ends match."""
    verdict: list[bool] = []

    def branch(index: int, function: Callable[..., Any]) -> Callable[[], Coroutine[Any, Any, Any]]:
        name = f"{function.__name__}[{index}]"

        async def run() -> Any:
            tell("task_started", name, 1)
            try:
                result = await call(function, state)
            except Exception as error:
                tell("task_failed", name, 1, error)
                raise
            except asyncio.CancelledError as error:
                if not verdict:
                    tell("task_failed", name, 1, error)
                raise
            tell("task_succeeded", name, 1)
            return result

        return run

    branches = [branch(index, function) for index, function in enumerate(definition.branches)]
    results = await run_branches(branches, definition.join, definition.bulkhead, lambda: verdict.append(True))
    return await call(definition.function, state, results)


class Reading:
    """A stream that is read in windows. It returns the cursor of a window only after the window was handled."""

    def __init__(self, definition: Definition, state: Any, cursor: Any) -> None:
        assert definition.source is not None
        self._definition = definition
        self._state = state
        self._cursor = cursor
        self._source: AsyncIterator[tuple[Any, Any]] = definition.source(state, cursor)
        self._next: asyncio.Future[tuple[Any, Any]] | None = None

    async def window(self) -> Any:
        """Reads and handles one window. Returns `More(cursor)` or the next state. When cancelled while reading, it
        handles what it has read, and raises once the cursor is known."""
        items: list[Any] = []
        cancelled: asyncio.CancelledError | None = None
        is_last = False
        try:
            is_last = await self._fill(items)
        except asyncio.CancelledError as error:
            if not items:
                raise
            cancelled = error
        answer = await self._flush(Window(items, is_last))
        if answer is not None:
            return answer
        if is_last:
            raise InvalidState(
                f"{self._definition.name} returned None after the last window of its stream: return the next state"
            )
        if cancelled is not None:
            raise Flushed(self._cursor) from cancelled
        return More(self._cursor)

    async def close(self) -> None:
        if self._next is not None:
            self._next.cancel()
            await asyncio.wait([self._next])
            if not self._next.cancelled():
                self._next.exception()
        close = getattr(self._source, "aclose", None)
        if close is not None:
            await close()

    async def _fill(self, items: list[Any]) -> bool:
        """Reads until the window is full or its time is over. Returns True at the end of the source."""
        definition, loop = self._definition, asyncio.get_running_loop()
        until = None if definition.within is None else loop.time() + definition.within.total_seconds()
        while len(items) < definition.window:
            if self._next is None:
                self._next = asyncio.ensure_future(_one(self._source))
            left = None if until is None or not items else max(0.0, until - loop.time())
            done, _ = await asyncio.wait([self._next], timeout=left)
            if not done:
                return False
            read, self._next = self._next, None
            try:
                self._cursor, item = read.result()
            except StopAsyncIteration:
                return True
            except _Ended:
                return True
            items.append(item)
        return False

    async def _flush(self, window: Window[Any]) -> Any:
        definition = self._definition
        policy = definition.on_error if isinstance(definition.on_error, Retry) else Retry.none
        limit = None if definition.timeout is None else definition.timeout.total_seconds()
        failures = 0
        while True:
            try:
                async with asyncio.timeout(limit):
                    return await call(definition.function, self._state, window)
            except Exception as error:
                failures += 1
                if policy.wants(error) is not False and (policy.attempts is None or failures < policy.attempts):
                    await asyncio.sleep(policy.delay(failures, 0).total_seconds())
                elif definition.on_error == "fail" or window.is_last:
                    raise
                else:
                    return None


class _Ended(Exception):
    """The source is exhausted; StopAsyncIteration cannot cross a future."""


class Flushed(BaseException):
    """A stream was cancelled. The window it had read was handled, up to this cursor."""

    def __init__(self, cursor: Any) -> None:
        super().__init__()
        self.cursor = cursor


async def _one(source: AsyncIterator[tuple[Any, Any]]) -> tuple[Any, Any]:
    try:
        return await source.__anext__()
    except StopAsyncIteration:
        raise _Ended from None


async def run_item(each: Callable[..., Any], item: Any, index: int, policy: Retry) -> ItemOutcome[Any]:
    """Runs one item under its policy. An error is its outcome."""
    failures = 0
    while True:
        try:
            return ItemOutcome(index, await call(each, item))
        except FAILURES as error:
            failures += 1
            is_over = policy.attempts is not None and failures >= policy.attempts
            if is_over or policy.wants(error) is False:
                return ItemOutcome(index, None, f"{type(error).__name__}: {error}")
            await asyncio.sleep(policy.delay(failures, 0).total_seconds())


def due_at(wait: Any, now: datetime) -> datetime:
    """When a timer with a duration or an instant ends."""
    if isinstance(wait, datetime):
        return kept_instant(wait, "@machine.timer")
    return instant_after(now, parse_duration(wait, what="@machine.timer"), "@machine.timer")
