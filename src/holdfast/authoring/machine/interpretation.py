"""The meaning of each kind of state, written once for machines under an app (`driver`) and standalone ones.

Callers provide how a body is called, a cursor is kept and time passes; this module decides the order, how often and
until when. Nothing here reads a clock or writes.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.authoring.machine.marks import Again, ItemOutcome, is_more

if TYPE_CHECKING:
    from holdfast.authoring.machine.handlers import Definition

T = TypeVar("T")


async def in_windows(
    window: Callable[[int, Any], Awaitable[Any]], keep: Callable[[Any], Awaitable[Any]], cursor: Any = None
) -> Any:
    """A stepped state or a stream: calls `window(number, cursor)` until it returns a state. `keep` makes a cursor
    durable and returns it as it is read back."""
    for number in itertools.count():
        answer = await window(number, cursor)
        if not is_more(answer):
            return answer
        cursor = await keep(answer.cursor)
    raise AssertionError("unreachable: the loop has no end")


async def polled(
    definition: Definition,
    look: Callable[[int], Awaitable[Any]],
    wait: Callable[[int, float], Awaitable[None]],
    failure: type[Exception],
    is_last: Callable[[Any], bool],
) -> Any:
    """A poll: calls `look(number)` until it returns a state. Tolerates up to `errors` failures in a row, unless
    `is_last` says that this one is final. `wait(number, delay)` passes the time before that look."""
    limit = None if definition.timeout is None else definition.timeout.total_seconds()
    errors, delay = 0, 0.0
    async with asyncio.timeout(limit):
        for number in itertools.count():
            if number:
                await wait(number, delay)
            try:
                answer = await look(number)
            except failure as error:
                errors += 1
                if errors > definition.errors or is_last(error):
                    raise
            else:
                if type(answer) is not Again:
                    return answer
                errors, delay = 0, answer.after
    raise AssertionError("unreachable: the loop has no end")


async def each_item(
    items: Sequence[T],
    concurrency: int,
    perform: Callable[[int, T], Awaitable[ItemOutcome[Any]]],
    known: dict[int, ItemOutcome[Any]] | None = None,
) -> list[ItemOutcome[Any]]:
    """A batch: the results of `perform(index, item)` for every item, in their order, a few at once. `known` are
    outcomes from an earlier process."""
    outcomes = dict(known or {})
    waiting = iter([index for index in range(len(items)) if index not in outcomes])

    async def branch() -> None:
        for index in waiting:
            outcomes[index] = await perform(index, items[index])

    async with asyncio.TaskGroup() as group:
        for _ in range(min(concurrency, len(items))):
            group.create_task(branch())
    return [outcomes[index] for index in range(len(items))]
