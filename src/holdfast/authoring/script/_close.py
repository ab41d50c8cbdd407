"""Ends a program early, without doing anything more.

A suspended coroutine that is left to the garbage collector runs its `finally` blocks wherever the collector happens to
run: on the worker's loop, where `await refund()` would really refund. So a program is closed on its own loop. Each
waiting task gets a private exception at its await; so does everything it awaits next, alternating with plain
cancellation, until every task and async generator has ended or has refused too often. A program that keeps refusing is
buried: its loop is kept forever, so that the collector never finds its coroutines.

Invariants: tasks are ended in the order they were created; a round is bounded, and so is the sum of all rounds.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import AsyncGeneratorType, CoroutineType
from typing import Any, Final

from holdfast.authoring.script import _stdlib
from holdfast.authoring.script._tasks import DurableTask, frames_of

ROUNDS: Final = 1_000

_graveyard: list[object] = []


def bury(*loops: object) -> None:
    """Keeps loops whose programs would not end, even while the interpreter shuts down and clears its modules."""
    for loop in loops:
        import ctypes  # rarely needed, and not light

        _graveyard.append(loop)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(loop))


def graveyard_size() -> int:
    """How many programs of this process refused to end."""
    return len(_graveyard)


def end_tasks(
    unfinished: Callable[[], Sequence[DurableTask[Any]]],
    run_a_round: Callable[[], None],
    make_exc: Callable[[], BaseException],
) -> bool:
    """Ends every task, by throwing and cancelling alternately. Returns False if some are left."""
    for attempt in range(ROUNDS):
        left = unfinished()
        if not left:
            return True
        for task in left:
            if attempt % 2:
                _cancel(task)
            else:
                _throw(task, make_exc)
        run_a_round()
    return not unfinished()


def _throw(task: DurableTask[Any], make_exc: Callable[[], BaseException]) -> None:
    waiter = _stdlib.waiter_of(task)
    if waiter is None:  # ready to run: there is no future to fail
        _cancel(task)
    elif not isinstance(waiter, asyncio.Task) and not waiter.done():  # a task it waits for has its own turn
        fail(waiter, make_exc)


def _cancel(task: DurableTask[Any]) -> None:
    with contextlib.suppress(RecursionError):  # tasks that wait for each other in a ring
        task.cancel()


def fail(future: asyncio.Future[Any], make_exc: Callable[[], BaseException]) -> None:
    """Fails a future that is not done."""
    if not future.done():
        future.set_exception(make_exc())


def open_generators(generators: Iterable[AsyncGeneratorType[Any, Any]]) -> list[AsyncGeneratorType[Any, Any]]:
    """Async generators that have begun and not ended."""
    return [generator for generator in generators if generator.ag_frame is not None]


def unstarted_coroutines(holders: Iterable[object]) -> list[CoroutineType[Any, Any, Any]]:
    """Coroutines that the suspended code has made and not yet awaited, in its variables or one container down.
    Unwinding drops them, and Python would warn that they were never awaited, although the author did nothing wrong."""
    found: list[CoroutineType[Any, Any, Any]] = []
    for holder in holders:
        for frame in frames_of(holder):
            for value in frame.f_locals.values():
                found.extend(_unstarted(value))
    return found


def _unstarted(value: object) -> Iterator[CoroutineType[Any, Any, Any]]:
    held: Any = value
    candidates: list[Any] = [held]
    if isinstance(held, list | tuple | set):
        candidates = [*held]
    elif isinstance(held, dict):
        candidates = [*held.values()]
    for candidate in candidates:
        if inspect.iscoroutine(candidate) and inspect.getcoroutinestate(candidate) == inspect.CORO_CREATED:
            yield candidate
