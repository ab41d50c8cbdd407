"""Threads for sync bodies: side by side when they block, few when they do not, nothing lost and nobody forgotten."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest

from holdfast.engine.threads import Threads

MOST = 8


@pytest.fixture
async def threads() -> AsyncIterator[Threads]:
    made = Threads(MOST, "tested")
    yield made
    made.shutdown()


async def test_results_and_errors_come_back_to_who_asked(threads: Threads) -> None:
    def refuse() -> None:
        raise LookupError("none of that")

    assert await asyncio.gather(*(threads.run(partial(pow, n, 2)) for n in range(1_000))) == [
        n * n for n in range(1_000)
    ]
    with pytest.raises(LookupError, match="none of that"):
        await threads.run(refuse)


async def test_work_that_blocks_goes_on_side_by_side(threads: Threads) -> None:
    """Promise: as many at once as there are threads, though each is woken by the one before it."""
    together = threading.Barrier(MOST)
    await asyncio.wait_for(asyncio.gather(*(threads.run(together.wait) for _ in range(MOST))), 10)


async def test_work_queued_behind_what_blocks_finds_a_thread(threads: Threads) -> None:
    """Promise: whatever blocks, work that comes later begins as long as a thread is free."""
    leave = threading.Event()
    blocked = [threads.run(lambda: leave.wait(30)) for _ in range(MOST - 1)]
    assert await asyncio.wait_for(threads.run(lambda: "through"), 10) == "through"
    leave.set()
    assert await asyncio.gather(*blocked) == [True] * (MOST - 1)


async def test_more_than_there_are_threads_wait_for_one(threads: Threads) -> None:
    """Promise: never more at once than there are threads, and all get their turn."""
    at_once, most, turn, together = 0, 0, threading.Lock(), threading.Barrier(MOST)

    def work() -> None:
        nonlocal at_once, most
        with turn:
            at_once += 1
            most = max(most, at_once)
        together.wait(30)
        with turn:
            at_once -= 1

    await asyncio.gather(*(threads.run(work) for _ in range(3 * MOST)))
    assert most == MOST


async def test_short_work_wakes_few_threads(threads: Threads) -> None:
    """Promise: a thousand bodies that are over at once do not take a thousand wake-ups."""
    with patch.object(threads.pool, "submit", wraps=threads.pool.submit) as woken:
        await asyncio.gather(*(threads.run(int) for _ in range(1_000)))
    assert woken.call_count < 500


async def test_work_cancelled_before_it_began_never_begins(threads: Threads) -> None:
    leave, began = threading.Event(), threading.Event()
    blocked = [threads.run(lambda: leave.wait(30)) for _ in range(MOST)]
    queued = threads.run(began.set)
    queued.cancel()
    leave.set()
    await asyncio.gather(*blocked)
    await threads.run(int)
    assert not began.is_set()


async def test_work_whose_waiter_has_left_ends_unheard(threads: Threads) -> None:
    leave = threading.Event()
    left = threads.run(lambda: leave.wait(30))
    left.cancel()
    leave.set()
    assert await threads.run(lambda: "next") == "next"


async def test_stop_iteration_is_an_error_like_others(threads: Threads) -> None:
    """Promise: what no future can hold still ends the wait, instead of leaving it forever."""
    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(threads.run(lambda: next(iter(()))), 10)


async def test_an_idle_thread_keeps_nothing_alive(threads: Threads) -> None:
    class Large:
        pass

    kept = Large()
    seen = weakref.ref(kept)
    await threads.run(partial(id, kept))
    del kept
    await threads.run(int)
    gc.collect()
    assert seen() is None


async def test_after_the_end_nothing_queued_begins() -> None:
    threads = Threads(1, "tested")
    leave, began = threading.Event(), threading.Event()
    running, queued = threads.run(lambda: leave.wait(30)), threads.run(began.set)
    threads.shutdown()
    leave.set()
    assert await asyncio.wait_for(running, 10)
    assert not began.is_set()
    assert not queued.done()


async def test_who_uses_the_pool_itself_gets_a_turn() -> None:
    """Promise: however many bodies are queued, the pool's other users (steps with a transaction) get their turn."""
    threads = Threads(1, "tested")
    order: list[str] = []
    leave = threading.Event()
    bodies = [threads.run(lambda: leave.wait(30)), *(threads.run(partial(order.append, "body")) for _ in range(1_000))]
    other = asyncio.wrap_future(threads.submit_alone(partial(order.append, "other")))
    leave.set()
    await asyncio.gather(*bodies, other)
    threads.shutdown()
    assert order.index("other") < 100


async def test_a_loop_that_stands_still_for_its_work_hears_of_each(threads: Threads) -> None:
    """Promise: a loop that waits for the end of what it just began, as that of `sim` does, is told of it, though it has
    not yet taken up what it was told before."""
    loop, told = asyncio.get_running_loop(), threading.Event()
    tell = loop.call_soon_threadsafe

    def telling(*args: Any) -> asyncio.Handle:
        told.set()
        return tell(*args)

    began: list[asyncio.Future[Any]] = []
    with patch.object(loop, "call_soon_threadsafe", telling):
        for _ in range(3):
            told.clear()
            began.append(threads.run(int))
            assert told.wait(10)
    assert await asyncio.gather(*began) == [0, 0, 0]


async def test_a_thread_without_work_is_told_so_in_that_thread() -> None:
    """Promise: every thread that worked is told once it finds nothing more to do, and not between two bodies that are
    queued; what belongs to it can be closed there."""
    worked, rested, told = set[int](), list[int](), threading.Event()

    def idle() -> None:
        rested.append(threading.get_ident())
        told.set()

    threads = Threads(1, "tested", idle)
    leave = threading.Event()
    bodies = [threads.run(lambda: leave.wait(30))]
    bodies += [threads.run(lambda: worked.add(threading.get_ident())) for _ in range(5)]
    leave.set()
    await asyncio.gather(*bodies)
    assert await asyncio.to_thread(told.wait, 10)
    assert rested == list(worked)
    told.clear()
    alone = asyncio.wrap_future(threads.submit_alone(threading.get_ident))
    assert await asyncio.wait_for(alone, 10) == rested[-1]
    assert await asyncio.to_thread(told.wait, 10)
    threads.shutdown()
    assert len(rested) == 2
