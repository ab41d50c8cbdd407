"""What each kind of state does in a standalone run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from holdfast.authoring.machine import state_bodies
from holdfast.authoring.machine.handlers import Definition
from holdfast.authoring.machine.interpretation import each_item, in_windows, polled
from holdfast.authoring.machine.marks import ItemOutcome
from holdfast.core.machine_history import CURSOR
from holdfast.core.payload import Shape, result_shape
from holdfast.core.retry import Retry
from holdfast.standalone.attempt import Exhausted, attempt, wall_clock
from holdfast.standalone.journey import Journey, Stop, TooLate

if TYPE_CHECKING:
    from holdfast.authoring.machine.model import Node

T = TypeVar("T")


class ItemRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A finished item of a batch, as the log keeps it."""

    index: int
    value: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""


async def perform(one: Journey, node: Node, state: Any, failed: BaseException | None) -> Any:
    """Performs the state and returns the next one. The run's total time never interrupts a state that can be undone."""
    work = _perform(one, node, state, failed)
    if one.until is None or node.undo is not None:
        return await work
    scope = asyncio.timeout_at(one.until)
    try:
        async with scope:
            return await work
    except TimeoutError:
        if scope.expired():
            raise TooLate from None
        raise


async def _perform(one: Journey, node: Node, state: Any, failed: BaseException | None) -> Any:
    definition = node.definition
    assert definition is not None
    match definition.kind:
        case "state":
            return await _tried(one, node, lambda: state_bodies.call(definition.function, state), failed=failed)
        case "script" | "router":
            return await _tried(one, node, lambda: state_bodies.call(definition.function, state), policy=Retry.none)
        case "split":
            return await _tried(one, node, lambda: _interruptible(one, state_bodies.split(definition, state, one.tell)))
        case "stepped":
            return await _stepped(one, node, definition, state)
        case "poll":
            return await _poll(one, node, definition, state)
        case "batch":
            return await _batch(one, node, definition, state)
        case "timer":
            return await _timer(one, node, definition, state)
        case "stream":
            return await _stream(one, node, definition, state)


async def _tried(
    one: Journey,
    node: Node,
    body: Callable[[], Awaitable[T]],
    *,
    policy: Retry | None = None,
    failed: BaseException | None = None,
    is_limited: bool = True,
) -> T:
    definition = node.definition
    assert definition is not None
    value: T = await attempt(
        body,
        policy=policy or definition.retry or one.model.options.retry or Retry(),
        limit=definition.timeout if is_limited else None,
        breaker=definition.breaker,
        raises=(*definition.raises, *one.model.options.raises),
        task=definition.name,
        tell=one.tell,
        pause=lambda delay: _pause(one, delay),
        begin=one.begin,
        failed=failed,
    )
    return value


async def _pause(one: Journey, delay: float) -> None:
    await _interruptible(one, asyncio.sleep(delay))
    one.boundary()


async def _interruptible(one: Journey, work: Awaitable[T]) -> T:
    """Runs work that a cancel interrupts."""
    if one.cancel is None:
        return await work
    task = asyncio.ensure_future(work)
    told = asyncio.ensure_future(one.cancel.wait())
    try:
        await asyncio.wait([task, told], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        task.cancel()
        await asyncio.wait([task])
        flushed = None if task.cancelled() else task.exception()
        if isinstance(flushed, state_bodies.Flushed):
            raise flushed from Stop()
        raise Stop
    finally:
        for left in (task, told):
            if not left.done():
                left.cancel()
                await asyncio.wait([left])
        if not task.cancelled():
            task.exception()


# -- stepped, poll, timer ----------------------------------------------------------------------------------------------


async def _stepped(one: Journey, node: Node, definition: Definition, state: Any) -> Any:
    shape = cursor_shape(node)

    async def window(_: int, cursor: Any) -> Any:
        return await _tried(one, node, lambda: state_bodies.call(definition.function, state, cursor))

    async def keep(cursor: Any) -> Any:
        encoded, back = shape.round_trip(cursor, "cursor")
        await one.append(CURSOR, node, encoded)
        one.boundary()
        return back

    return await in_windows(window, keep, shape.decode(one.cursors[-1]) if one.cursors else None)


def cursor_shape(node: Node) -> Shape[Any]:
    """The shape of a state's cursor."""
    return Shape(node.cursor if node.cursor is not None else Any, what=f"cursor of state {node.label}")


async def _poll(one: Journey, node: Node, definition: Definition, state: Any) -> Any:
    async def look(_: int) -> Any:
        def body() -> Awaitable[Any]:
            return state_bodies.call(definition.function, state)

        return await _tried(one, node, body, policy=Retry.none, is_limited=False)

    async def wait(_: int, delay: float) -> None:
        await _pause(one, delay)

    def is_declared(spent: Exhausted) -> bool:
        return isinstance(spent.error, definition.raises)

    try:
        return await polled(definition, look, wait, Exhausted, is_declared)
    except TimeoutError as error:
        raise Exhausted(one.attempt, TimeoutError(f"polling took longer than {definition.timeout}")) from error


async def _timer(one: Journey, node: Node, definition: Definition, state: Any) -> Any:
    if one.cursors:
        until = msgspec.json.decode(one.cursors[0], type=datetime)
    else:
        assert definition.wait is not None
        until = state_bodies.due_at(definition.wait(state), wall_clock())
        await one.append(CURSOR, node, msgspec.json.encode(until))
    await _pause(one, max(0.0, (until - wall_clock()).total_seconds()))
    return await _tried(one, node, lambda: state_bodies.call(definition.function, state))


# -- batch, stream -----------------------------------------------------------------------------------------------------


async def _batch(one: Journey, node: Node, definition: Definition, state: Any) -> Any:
    load, each = definition.load, definition.each
    assert load is not None
    assert each is not None
    items: list[Any] = list(await _tried(one, node, lambda: state_bodies.call(load, state)))
    shape = result_shape(each, f"state {node.label}: result of an item")
    outcomes: dict[int, ItemOutcome[Any]] = {}
    for blob in one.cursors:
        row = msgspec.json.decode(blob, type=ItemRow)
        outcomes[row.index] = ItemOutcome(row.index, None if row.error else shape.decode(row.value), row.error)

    async def perform(index: int, item: Any) -> ItemOutcome[Any]:
        one.boundary()
        outcome = await state_bodies.run_item(each, item, index, definition.item_retry)
        value, back = shape.round_trip(outcome.value) if outcome.is_ok else (b"null", None)
        blob = msgspec.json.encode(ItemRow(index, msgspec.Raw(value), outcome.error))
        await one.append(CURSOR, node, blob)
        return ItemOutcome(index, back, outcome.error)

    results = await each_item(items, definition.concurrency, perform, outcomes)
    return await _tried(one, node, lambda: state_bodies.call(definition.function, state, results))


async def _stream(one: Journey, node: Node, definition: Definition, state: Any) -> Any:
    shape = cursor_shape(node)
    reading = state_bodies.Reading(definition, state, shape.decode(one.cursors[-1]) if one.cursors else None)

    async def window(_: int, __: Any) -> Any:  # the reading knows where it is
        try:
            return await _tried(
                one, node, lambda: _interruptible(one, reading.window()), policy=Retry.none, is_limited=False
            )
        except state_bodies.Flushed as flushed:
            await one.append(CURSOR, node, shape.encode(flushed.cursor, "cursor"))
            raise flushed.__cause__ or Stop() from None

    async def keep(cursor: Any) -> Any:
        await one.append(CURSOR, node, shape.encode(cursor, "cursor"))
        one.boundary()
        return cursor

    try:
        return await in_windows(window, keep)
    finally:
        await reading.close()
