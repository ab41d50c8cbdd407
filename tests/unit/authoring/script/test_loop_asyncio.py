"""Plain asyncio on a durable loop: everything an author may use works, in an order that follows from the program."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.authoring.script.loop import DurableFuture, DurableTask
from holdfast.errors import NotAllowedHere
from tests.unit.authoring.script.loop_host import OUTER, StepCall, World, result_of

# --------------------------------------------------------------------------------------------------------- what works


async def sleeping(world: World) -> None:
    world.trace.append(await asyncio.sleep(3, "slept"))
    world.trace.append(world.loop.time())


async def timeouts(world: World) -> None:
    for absolute in (False, True):
        try:
            async with asyncio.timeout_at(world.loop.time() + 2) if absolute else asyncio.timeout(2):
                await world.step("slow")
        except TimeoutError:
            world.trace.append(world.loop.time())
    try:
        await asyncio.wait_for(world.step("slow"), 2)
    except TimeoutError:
        world.trace.append(world.loop.time())
    async with asyncio.timeout(100):
        await asyncio.sleep(1)
    world.trace.append(await asyncio.wait_for(asyncio.sleep(1, "in time"), 50))
    try:
        async with asyncio.timeout(0):
            await world.step("slow")
    except TimeoutError:
        world.trace.append("at once")


async def gathering(world: World) -> None:
    world.trace.append(await asyncio.gather(asyncio.sleep(2, "b"), asyncio.sleep(1, "a")))
    world.trace.append(repr(await asyncio.gather(boom(), asyncio.sleep(1), return_exceptions=True)))


async def waiting(world: World) -> None:
    tasks = [asyncio.create_task(asyncio.sleep(delay, delay)) for delay in (3, 1, 2)]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    world.trace.append([task.result() for task in done])
    done, pending = await asyncio.wait(pending, timeout=1)
    world.trace.append(([task.result() for task in done], len(pending)))
    done, _ = await asyncio.wait(pending)
    world.trace.append([task.result() for task in done])


async def completing(world: World) -> None:
    tasks = [asyncio.create_task(asyncio.sleep(delay, delay)) for delay in (3, 1, 2)]
    world.trace.append([await next_one for next_one in asyncio.as_completed(tasks)])
    try:
        for next_one in asyncio.as_completed([asyncio.create_task(asyncio.sleep(9))], timeout=1):
            await next_one
    except TimeoutError:
        world.trace.append("timeout")


async def grouping(world: World) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(asyncio.sleep(delay, delay)) for delay in (2, 1)]
    world.trace.append([task.result() for task in tasks])
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(boom())
            group.create_task(noting(world, "cancelled"))
    except* ValueError as group_error:
        world.trace.append([str(error) for error in group_error.exceptions])


async def synchronising(world: World) -> None:
    event, lock, two, condition = asyncio.Event(), asyncio.Lock(), asyncio.Semaphore(2), asyncio.Condition()
    barrier: asyncio.Barrier = asyncio.Barrier(3)

    async def worker(number: int) -> None:
        await event.wait()
        async with two, lock:
            await asyncio.sleep(1)
            world.trace.append((number, world.loop.time()))
        await barrier.wait()
        async with condition:
            await condition.wait()
            world.trace.append(number)

    tasks = [asyncio.create_task(worker(number)) for number in range(3)]
    await asyncio.sleep(1)
    event.set()
    await asyncio.sleep(10)
    async with condition:
        condition.notify_all()
    await asyncio.gather(*tasks)


async def queueing(world: World) -> None:
    queue: asyncio.Queue[int] = asyncio.Queue(maxsize=1)

    async def produce() -> None:
        for number in range(4):
            await queue.put(number)
            await asyncio.sleep(1)

    async def consume(name: str) -> None:
        while True:
            world.trace.append((name, await queue.get(), world.loop.time()))
            queue.task_done()

    consumers = [asyncio.create_task(consume(name)) for name in "ab"]
    await produce()
    await queue.join()
    for consumer in consumers:
        consumer.cancel()
    await asyncio.gather(*consumers, return_exceptions=True)


async def shielding(world: World) -> None:
    inner = asyncio.create_task(asyncio.sleep(5, "survived"))
    try:
        async with asyncio.timeout(1):
            await asyncio.shield(inner)
    except TimeoutError:
        world.trace.append(await inner)


async def cancelling(world: World) -> None:
    task = asyncio.create_task(noting(world, "cancelled"))
    await asyncio.sleep(0)
    task.cancel("because")
    try:
        await task
    except asyncio.CancelledError as error:
        world.trace.append((error.args, task.cancelled(), task.cancelling()))


async def with_contextvars(world: World) -> None:
    variable = contextvars.ContextVar("variable", default="none")

    async def child(value: str) -> str:
        before = variable.get()
        variable.set(value)
        await asyncio.sleep(1)
        return before + variable.get()

    variable.set("parent")
    other = contextvars.Context()
    fresh = asyncio.create_task(child("c"), context=other)
    world.trace.append(await asyncio.gather(child("a"), child("b"), fresh))
    world.trace.append((variable.get(), other[variable]))


async def generating(world: World) -> None:
    async def numbers() -> AsyncIterator[int]:
        try:
            for number in range(3):
                await asyncio.sleep(1)
                yield number
        finally:
            world.trace.append("closed")

    world.trace.append([number async for number in numbers()])
    stream = numbers()
    world.trace.append(await anext(stream))
    await stream.aclose()  # type: ignore[attr-defined]


async def managing(world: World) -> None:
    @asynccontextmanager
    async def held() -> AsyncIterator[str]:
        await asyncio.sleep(1)
        yield "held"
        await asyncio.sleep(1)
        world.trace.append("released")

    async with held() as what:
        world.trace.append(what)


async def own_coroutines(world: World) -> None:
    task = asyncio.create_task(world.step("mine"), name="named")
    world.loop.call_later(1, lambda: world.pending["mine"].set_result("done"))
    world.trace.append((await task, task.get_name()))


async def boom() -> None:
    raise ValueError("boom")


async def noting(world: World, word: str) -> None:
    try:
        await world.step("never")
    except asyncio.CancelledError:
        world.trace.append(word)
        raise


WORKS: dict[Callable[[World], Coroutine[Any, Any, None]], list[Any]] = {
    sleeping: ["slept", 3.0],
    timeouts: [2.0, 4.0, 6.0, "in time", "at once"],
    gathering: [["b", "a"], "[ValueError('boom'), None]"],
    waiting: [[1], ([2], 1), [3]],
    completing: [[1, 2, 3], "timeout"],
    grouping: [[2, 1], "cancelled", ["boom"]],
    synchronising: [(0, 2.0), (1, 3.0), (2, 4.0), 2, 0, 1],
    queueing: [("a", 0, 0.0), ("a", 1, 1.0), ("b", 2, 2.0), ("a", 3, 3.0)],
    shielding: ["survived"],
    cancelling: ["cancelled", (("because",), True, 1)],
    with_contextvars: [["parenta", "parentb", "nonec"], ("parent", "c")],
    generating: ["closed", [0, 1, 2], 0, "closed"],
    managing: ["held", "released"],
    own_coroutines: [("done", "named")],
}


@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("program", WORKS)
def test_asyncio_works(
    program: Callable[[World], Coroutine[Any, Any, None]], outer: Callable[[Callable[[], None]], None]
) -> None:
    world = World()

    def check() -> None:
        task = world.run(program(world))
        world.advance(1_000)
        task.result()
        assert world.unwind()

    outer(check)
    assert world.trace == WORKS[program]
    assert not world.loop.callback_errors


# ------------------------------------------------------------------------------------------------------------- numbers


def test_tasks_and_futures_hash_by_creation_and_equal_only_themselves() -> None:
    async def program(world: World) -> None:
        this = asyncio.current_task()
        assert isinstance(this, DurableTask)
        tasks = [asyncio.create_task(asyncio.sleep(0)) for _ in range(3)]
        futures = [world.loop.create_future() for _ in range(3)]
        assert [hash(task) for task in (this, *tasks)] == [1, 2, 3, 4]
        assert [hash(future) for future in futures] == [1, 2, 3]
        assert all(isinstance(future, DurableFuture) for future in futures)
        same_number: list[object] = [tasks[0], futures[1]]
        assert same_number[0] != same_number[1]
        await asyncio.gather(*tasks)

    result_of(program)


def test_task_names_count_per_program() -> None:
    """Contract: asyncio's own names count per process, so they would differ on replay."""

    async def program(_world: World) -> list[str]:
        tasks = [asyncio.create_task(asyncio.sleep(0)), asyncio.create_task(asyncio.sleep(0), name="mine")]
        await asyncio.gather(*tasks)
        return [task.get_name() for task in tasks]

    assert result_of(program) == result_of(program) == ["Task-2", "mine"]


def test_the_hosts_futures_draw_no_numbers() -> None:
    """Contract: a host that makes a future live and none on replay changes no order."""
    numbers = []
    for extra in (0, 5):
        world = World()
        for _ in range(extra):
            _ = world.loop.outcome_future()
        numbers.append(world.loop.create_future().number)
    assert numbers == [1, 1]


def test_what_gather_returns_is_numbered() -> None:
    async def program(world: World) -> list[int]:
        _ = world.loop.create_future()
        both = [asyncio.gather(asyncio.sleep(0), asyncio.sleep(0)) for _ in range(2)]
        hashes = [hash(one) for one in both]
        done, _ = await asyncio.wait(both)
        assert done == set(both)
        with pytest.raises(ValueError, match="boom"):
            await asyncio.gather(boom())
        return hashes

    assert result_of(program) == [2, 3]


def test_asyncios_register_does_not_hold_the_programs_tasks() -> None:
    """Contract: thousands of warm programs do not slow each other down there, nor show in the worker's all_tasks()."""

    async def main() -> int:
        world = World()
        world.start(world.step("never"))
        found = len(asyncio.all_tasks())
        assert all(not isinstance(task, DurableTask) for task in asyncio.all_tasks(world.loop))
        world.unwind()
        return found

    assert asyncio.run(main()) == 1


# ------------------------------------------------------------------------------------------------------------ refusals


def test_all_tasks_is_refused_inside_and_works_outside() -> None:
    async def program() -> None:
        with pytest.raises(NotAllowedHere, match="all_tasks"):
            asyncio.all_tasks()
        with pytest.raises(NotAllowedHere, match="all_tasks"):
            asyncio.all_tasks(asyncio.get_running_loop())

    async def main() -> None:
        before = asyncio.all_tasks()
        World().run(program()).result()
        assert asyncio.all_tasks() == before == {asyncio.current_task()}

    asyncio.run(main())


def test_as_completed_over_bare_coroutines_is_refused() -> None:
    async def program(_world: World) -> None:
        with pytest.raises(NotAllowedHere, match=r"wrap them in\s+create_task"):
            _ = next(iter(asyncio.as_completed([boom()])))

    result_of(program)


def test_as_completed_over_step_calls_is_accepted() -> None:
    world = World()

    async def program() -> list[Any]:
        calls = [world.step(name) for name in "abc"]
        return [await next_one for next_one in asyncio.as_completed(calls)]

    task = world.run(program())
    assert world.performed == ["a", "b", "c"]
    for name in "cab":
        world.resolve(name, name)
    assert task.result() == ["c", "a", "b"]


def test_as_completed_over_calls_without_an_order_is_refused() -> None:
    class Unordered(StepCall):
        __hash__ = object.__hash__

    async def program(world: World) -> None:
        call = Unordered(world, "a")
        with pytest.raises(NotAllowedHere, match="as_completed"):
            _ = next(iter(asyncio.as_completed([call])))
        call.close()

    result_of(program)


def test_wait_over_a_future_of_no_number_is_refused() -> None:
    async def program(_world: World) -> None:
        foreign: asyncio.Future[None] = asyncio.Future()
        with pytest.raises(NotAllowedHere, match=r"asyncio\.wait\(\).*create_future"):
            await asyncio.wait([foreign])

    result_of(program)


def as_completed(coroutines: list[Coroutine[Any, Any, int]]) -> list[asyncio.Future[int]]:
    return [asyncio.ensure_future(one) for one in coroutines]


def test_helpers_with_names_of_asyncios_own_are_left_alone() -> None:
    async def program(_world: World) -> list[int]:
        return await asyncio.gather(*as_completed([asyncio.sleep(0, 1)]))

    assert result_of(program) == [1]
