"""Programs that try to act when their loop is closed, and end all the same."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from tests.unit.authoring.script.loop_host import World

Program = Callable[[World], Coroutine[Any, Any, None]]


class Refund:
    """Counts the real refunds."""

    made = 0


async def refund(world: World) -> None:
    await world.step("refund")
    Refund.made += 1


async def finally_await(world: World) -> None:
    try:
        await world.step("charge")
    finally:
        world.trace.append("finally")
        await refund(world)


async def finally_sleep(world: World) -> None:
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(5)
        await refund(world)


async def catches_everything(world: World) -> None:
    try:
        await world.step("charge")
    except BaseException as error:  # noqa: BLE001
        world.trace.append(type(error))
        await refund(world)


async def catches_often(world: World) -> None:
    for _ in range(50):
        try:
            await world.step("charge")
        except BaseException as error:  # noqa: BLE001
            world.trace.append(type(error))


async def ignores_cancellation(world: World) -> None:
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await world.step("charge")


async def nested_finally(world: World) -> None:
    try:
        await finally_await(world)
    finally:
        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            group.create_task(refund(world))
            await asyncio.gather(refund(world), refund(world))


async def group(world: World) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(finally_await(world))
        tasks.create_task(finally_sleep(world))
        await asyncio.shield(catches_everything(world))


async def waits_for_everything(world: World) -> None:
    queue: asyncio.Queue[None] = asyncio.Queue()
    lock, event = asyncio.Lock(), asyncio.Event()
    await lock.acquire()
    tasks = [asyncio.create_task(finally_await(world)) for _ in range(3)]
    awaited = [queue.get(), lock.acquire(), event.wait(), asyncio.wait(tasks), world.step("x"), asyncio.sleep(9)]
    tasks.extend(asyncio.create_task(with_refund(world, coro)) for coro in awaited)
    async with asyncio.timeout(99):
        for next_one in asyncio.as_completed(tasks):
            await next_one


async def with_refund(world: World, coro: Coroutine[Any, Any, Any]) -> None:
    try:
        await coro
    finally:
        await refund(world)


async def stream(world: World) -> AsyncIterator[int]:
    try:
        yield 1
        await world.step("more")
        yield 2
    finally:
        world.trace.append("stream")
        await refund(world)


async def stream_in_finally(world: World) -> AsyncIterator[int]:
    try:
        yield 1
    finally:
        try:
            yield 2
        finally:
            world.trace.append("stream")
            await refund(world)


async def iterates(world: World) -> None:
    async for _ in stream(world):
        await world.step("charge")


async def iterates_inside(world: World) -> None:
    async for _ in stream(world):
        pass


async def drops_a_stream(world: World) -> None:
    async for _ in stream(world):
        break
    gc.collect()
    await world.step("charge")


async def holds_streams(world: World) -> None:
    streams = [stream(world), stream_in_finally(world), stream(world)]
    for one in streams:
        await anext(one)
    await streams[1].athrow(ValueError)  # type: ignore[attr-defined]
    await world.step("charge")


@contextlib.asynccontextmanager
async def booked(world: World) -> AsyncIterator[None]:
    try:
        yield
    finally:
        world.trace.append("booked")
        await refund(world)


class Booked:
    def __init__(self, world: World) -> None:
        self.world = world

    async def __aenter__(self) -> None:
        await asyncio.sleep(0)

    async def __aexit__(self, *error: object) -> bool:
        await refund(self.world)
        return True


async def managers(world: World) -> None:
    async with Booked(world), booked(world), contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(refund, world)
        await world.step("charge")


async def has_not_awaited_yet(world: World) -> None:
    later = [refund(world), refund(world)]
    one, named = refund(world), {"one": refund(world)}
    await world.step("charge")
    await asyncio.gather(*later, one, *named.values())


async def spins(_world: World) -> None:
    while True:  # noqa: ASYNC110
        await asyncio.sleep(0)


async def callbacks_spin(world: World) -> None:
    def again() -> None:
        world.loop.call_soon(again)

    again()
    await world.step("charge")


ENDS: list[Program] = [
    finally_await, finally_sleep, catches_everything, catches_often, ignores_cancellation, nested_finally, group,
    waits_for_everything, iterates, iterates_inside, drops_a_stream, holds_streams, managers,
    has_not_awaited_yet, spins, callbacks_spin,
]  # fmt: skip
