"""Timers that are due at the same instant fire together, as asyncio fires them, live and on replay."""

from __future__ import annotations

import asyncio

from holdfast import Signal, sleep, step, workflow
from holdfast.testing import Sim

never = Signal[int]("never")
seen: list[str] = []


@step
async def note(text: str) -> str:
    seen.append(text)
    return text


@workflow
async def nested_timeouts() -> list[bool | int]:
    """As CPython's `test_nested_timeouts`: both deadlines pass in one instant, so the task is cancelled twice."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    when = loop.time() + 10
    cancelling = 0
    outer = asyncio.timeout_at(when)
    inner = asyncio.timeout_at(when)
    try:
        async with outer:
            try:
                async with inner:
                    await never.wait()
            except asyncio.CancelledError:
                cancelling = task.cancelling()
                raise
    except TimeoutError:
        pass
    return [inner.expired(), outer.expired(), cancelling]


@workflow
async def two_timers() -> list[str]:
    order: list[str] = []
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    when = loop.time() + 5

    def schedule() -> None:
        order.append("first")
        loop.call_soon(order.append, "soon")

    loop.call_at(when, order.append, "second")
    loop.call_at(when, schedule)
    loop.call_at(when, done.set)
    await done.wait()
    await note("after")
    return order


@workflow
async def sleepers() -> list[str]:
    async def one(name: str) -> str:
        await sleep("1h")
        return await note(name)

    return list(await asyncio.gather(one("a"), one("b"), one("c")))


def test_both_timeouts_of_one_instant_have_expired() -> None:
    """Promise: the inner block sees the cancel of both, as under asyncio."""
    with Sim() as sim:
        run = sim.start(nested_timeouts())
        sim.advance("11s")
        assert run.result() == [True, True, 1]


def test_what_a_timer_schedules_comes_after_the_timers_of_its_instant() -> None:
    """Promise: callbacks of one instant run in the order of their making; what they call_soon comes later."""
    with Sim() as sim:
        run = sim.start(two_timers())
        sim.advance("10s")
        assert run.result() == ["second", "first", "soon"]


def test_sleeps_of_one_instant_end_together_and_replay() -> None:
    """Promise: one turn wakes them all, and the journal replays: a new worker reads it back after each step."""
    seen.clear()
    with Sim() as sim:
        run = sim.start(sleepers())
        sim.advance("2h")
        assert run.result() == ["a", "b", "c"]
        scheduled = [event.ordinal for event in run.follow() if event.type == "step"]
        assert len(set(scheduled)) == 1
