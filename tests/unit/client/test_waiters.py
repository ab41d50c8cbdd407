"""Who waits for news of a run is woken in the order in which they came, in every process alike."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.memory.store import MemoryStore
from holdfast.client.waiters import Listening, Waiting
from holdfast.core import events as e

MANY = 200


@pytest.mark.parametrize("way", ["a hint", "a look"])
async def test_those_who_wait_are_woken_in_their_order(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: the order is that of their coming, not of a set: a simulation of the same seed is the same story."""
    store = MemoryStore(VirtualClock(datetime(2026, 1, 1, tzinfo=UTC)))
    waits = Waiting(store)
    kept = [bytearray(100 * (number % 7)) for number in range(MANY)]  # so that addresses are in no order
    listening = [waits.listen("r", every=True) for _ in range(MANY)]
    del kept
    by_chance = listening[1::2] + listening[::2]
    for each in by_chance:
        waits.add(each)
    woken: list[Listening] = []

    def wake(each: Listening) -> None:
        woken.append(each)

    monkeypatch.setattr(Listening, "wake", wake)
    if way == "a hint":
        waits.ended(e.ChildEnded(key="", run="r", status="completed"))
    else:
        monkeypatch.setattr(store, "changes", lambda: -1)
        await asyncio.sleep(0.05)
    assert woken[:MANY] == by_chance
    for each in listening:
        waits.remove(each)
    waits.close()
