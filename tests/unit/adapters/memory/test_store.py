"""What only the memory store promises: any thread, any loop, one memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Barrier
from typing import TypeVar

import pytest

from holdfast.adapters.memory import MemoryStore, VirtualClock
from holdfast.errors import CorruptJournal
from holdfast.ports.inbox import Accepted, Delivery
from holdfast.ports.journal import Committed
from holdfast.ports.runs import Made
from holdfast.ports.store import Store
from holdfast.testing.conformance.world import START, World, signal

T = TypeVar("T")


@pytest.fixture
def world() -> World:
    clock = VirtualClock(START)
    store: Store = MemoryStore(clock)
    return World(store, clock)


def in_threads(count: int, work: Callable[[int], Awaitable[T]]) -> list[T]:
    """The same work in several threads at once, each with a loop of its own."""
    barrier = Barrier(count)

    async def begin_together(number: int) -> T:
        barrier.wait(timeout=60)
        return await work(number)

    def on_a_loop(number: int) -> T:
        return asyncio.run(begin_together(number))

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(on_a_loop, range(count)))


def test_threads_with_loops_of_their_own_make_one_run(world: World) -> None:
    """Contract: one store serves any number of threads and event loops."""
    creations = in_threads(8, lambda _: world.create(world.new("r", key="k")))
    assert sum(isinstance(creation, Made) for creation in creations) == 1


def test_threads_lose_no_message(world: World) -> None:
    """Contract: inbox numbers are dense whoever sends."""
    asyncio.run(world.make("r"))

    async def send(number: int) -> list[Delivery]:
        return [await world.store.send(signal("r", f"{number}-{each}")) for each in range(50)]

    assert in_threads(8, send) == [[Accepted()] * 50] * 8
    messages = asyncio.run(world.unread("r"))
    assert [message.no for message in messages] == list(range(1, 401))


def test_threads_never_share_a_claim(world: World) -> None:
    """Contract: each run goes to one worker."""
    for count in range(100):
        asyncio.run(world.make(f"r{count}"))

    async def claim(number: int) -> list[str]:
        worker = await world.worker(f"i{number}")
        return [run for _ in range(20) for run in await world.claimed_ids(worker, limit=1)]

    ids = [run for taken in in_threads(8, claim) for run in taken]
    assert len(ids) == len(set(ids)) == 100


async def test_what_a_reader_was_given_does_not_change(world: World) -> None:
    """Contract: answers are snapshots."""
    holder = await world.held_run("r")
    before, rows, unread = await world.get("r"), await world.store.history("r"), await world.unread("r")
    await world.store.send(signal("r", "m1"))
    assert isinstance(await holder.commit(), Committed)
    assert (before.inbox_last, before.next_ordinal, len(rows), unread) == (0, 2, 1, [])


async def test_a_changed_blob_is_noticed(world: World) -> None:
    """Contract: the hash is verified on reading, so bytes under a wrong name are an error."""
    name = "0" * 64
    await world.make("r", blobs=((name, b"other bytes"),))
    with pytest.raises(CorruptJournal, match=name):
        await world.store.get_blob(name)


async def test_without_a_clock_it_takes_the_systems() -> None:
    """Contract: `MemoryStore()` works by itself."""
    store = MemoryStore()
    before = datetime.now(UTC)
    assert before <= store.clock.now()
    assert store.url == "memory://"
    await store.close()
    await store.close()
