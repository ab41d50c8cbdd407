"""A lane: what was accepted is answered, whatever happened before."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.postgres import open_postgres
from holdfast.adapters.postgres import store as module
from holdfast.adapters.postgres.lane import Lane
from holdfast.errors import StoreUnavailable
from holdfast.testing.conformance.world import START, World, signal
from tests.support.postgres import clean_url


@pytest.mark.parametrize("error", [StoreUnavailable("nobody is there"), ValueError("what nobody thought of")])
async def test_a_lane_whose_beginning_failed_serves_all_the_same(error: Exception) -> None:
    """Promise: the server was away when the lane wanted to connect; who asks later is answered, not left waiting."""
    begun: list[bool] = []
    ended: list[bool] = []

    def begin() -> None:
        begun.append(True)
        raise error

    def perform(work: Sequence[int]) -> Sequence[int]:
        return [2 * piece for piece in work]

    lane: Lane[int] = Lane("lane", perform, lambda: ended.append(True), begin)
    assert await lane.ask(21) == 42
    lane.close()
    assert (begun, ended) == ([True], [True])


@pytest.mark.parametrize("verb", ["register", "send"])
async def test_a_store_has_one_lane_of_a_kind(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: of two threads that write first at the same moment both take the same one, which closing ends."""
    both = threading.Barrier(2)
    made: list[Lane[Any]] = []

    class Slow(Lane[Any]):
        def __init__(self, *arguments: Any) -> None:
            with suppress(threading.BrokenBarrierError):
                both.wait(0.5)  # for somebody who makes one too
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(module, "Lane", Slow)
    world = World(await open_postgres(clean_url("&notices=off")), VirtualClock(START))

    async def write(name: str) -> None:
        await (world.worker(name) if verb == "register" else world.store.send(signal("nobody", name)))

    await asyncio.gather(*(asyncio.to_thread(asyncio.run, write(name)) for name in ("i1", "i2")))
    await world.store.close()
    assert len(made) == 1
