"""The verbs of `def` workflows and steps: blocking versions of the async ones.

Each hands an awaitable to the run's own loop (`bridge`) and waits for it; nothing is decided here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from datetime import datetime
from typing import Any, TypeVar, cast, overload

from holdfast.authoring.script import verbs
from holdfast.authoring.script.bridge import block_on
from holdfast.authoring.script.context import require_program
from holdfast.authoring.script.place import place
from holdfast.authoring.script.sagas import Saga as AsyncSaga
from holdfast.authoring.script.steps import AnyStep
from holdfast.authoring.script.workflows import SyncWorkflow
from holdfast.core.durations import Duration
from holdfast.core.references import BlobRef
from holdfast.errors import NotAllowedHere

R = TypeVar("R")
T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")


def sleep(duration: Duration | None = None, *, until: datetime | None = None, name: str | None = None) -> None:
    """Sleeps durably: parks the run and gives the thread back."""
    block_on(verbs.durable_sleep(duration, until, name, place(1)), "sleep()")


def wait(call: Coroutine[Any, Any, R]) -> R:
    """Waits for an async step or workflow, called: `wait(greet("you"))`."""
    require_program("wait()")
    return block_on(call, "wait()")


@overload
def gather(a: Coroutine[Any, Any, T1], b: Coroutine[Any, Any, T2], /) -> tuple[T1, T2]: ...
@overload
def gather(
    a: Coroutine[Any, Any, T1], b: Coroutine[Any, Any, T2], c: Coroutine[Any, Any, T3], /
) -> tuple[T1, T2, T3]: ...
@overload
def gather(
    a: Coroutine[Any, Any, T1],
    b: Coroutine[Any, Any, T2],
    c: Coroutine[Any, Any, T3],
    d: Coroutine[Any, Any, T4],
    /,
) -> tuple[T1, T2, T3, T4]: ...
@overload
def gather(*calls: Coroutine[Any, Any, T]) -> tuple[T, ...]: ...
def gather(*calls: Coroutine[Any, Any, Any]) -> tuple[Any, ...]:
    """Runs calls together and waits for all: `gather(load.call(1), load.call(2))`."""
    require_program("gather()")

    async def all_of() -> tuple[Any, ...]:
        return tuple(await asyncio.gather(*calls))

    return block_on(all_of(), "gather()")


def each(function: Callable[[T], R], items: Iterable[T], *, limit: int = 50) -> list[R]:
    """Calls a step or workflow for every item, at most `limit` at a time; results in the order of the items.
    However many: against the step limit they count as one."""
    program = require_program("each()")
    kept: Any = function

    def call(item: T) -> Coroutine[Any, Any, R]:
        made: Coroutine[Any, Any, R]
        if isinstance(kept, SyncWorkflow):
            made = cast("SyncWorkflow[..., R]", kept).call(item)
        elif isinstance(kept, AnyStep):
            made = cast("AnyStep[..., R]", kept).durable_call(program, (item,), {})
        else:
            made = kept(item)
        return made

    return block_on(verbs.each(call, items, limit=limit), "each()")


def put_blob(value: Any) -> BlobRef:
    """Stores a sync step's own large data (bytes, or plain JSON values) and returns a small reference to it."""
    return verbs.in_step("put_blob()").surroundings.wait_for(verbs.put_blob(value))


def get_blob(ref: BlobRef) -> Any:
    """Reads back what `put_blob` stored, its hash verified."""
    return verbs.in_step("get_blob()").surroundings.wait_for(verbs.get_blob(ref))


class Saga(AsyncSaga):
    """`with saga():` — on an error or a cancel, undo the completed steps in reverse, each durably."""

    def __enter__(self) -> None:
        self.open()

    def __exit__(self, *details: object) -> None:
        error = details[1]
        self.leave()
        block_on(self.settle(error if isinstance(error, BaseException) else None), "saga()")

    async def __aenter__(self) -> None:
        raise NotAllowedHere("in a sync workflow write `with saga():`; `async with` is for holdfast")


def saga() -> Saga:
    """A block whose completed steps are undone in reverse if it fails or is cancelled."""
    return Saga()
