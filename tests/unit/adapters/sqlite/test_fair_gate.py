"""A tenant with ten thousand runs and one with ten, at the gate of one queue (L6)."""

from __future__ import annotations

from functools import partial

import pytest

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.sqlite import SqliteStore
from holdfast.core.gate import Gate
from holdfast.core.turn import micros
from holdfast.ports.queues import QueueChange
from holdfast.testing.conformance.world import World
from tests.unit.adapters.sqlite.test_queue_plans import fill_runs


async def waits(store: SqliteStore, clock: VirtualClock, flood: int, limit: int) -> list[int]:
    """After how many runs that began each of the small tenant's ten did."""
    world = World(store, clock)
    worker = await world.worker("i1", queues=("mail",), definitions=(("order", ""),))
    assert await store.change_queue(QueueChange(name="mail", revision=0, body=b"", gate=Gate(at_once=50_000)))
    if flood:
        await store._writer.run(partial(fill_runs, values=(flood, micros(clock.now()), 1)), is_large=True)
        await world.claim(worker, limit=100)
    for number in range(10):
        await world.make(f"small-{number}", queue="mail", share="small")
    places: list[int] = []
    begun = 0
    while len(places) < 10:
        for run in await world.claimed_ids(worker, limit=limit):
            begun += 1
            places += [begun] if run.startswith("small") else []
    return places


@pytest.mark.parametrize("limit", [1, 10])
async def test_ten_thousand_runs_of_one_tenant_do_not_delay_another(
    store: SqliteStore, clock: VirtualClock, limit: int
) -> None:
    """Promise (L6): counted in runs that begin, the ten runs of a small tenant wait at most twice as long behind ten
    thousand of another as they do alone (p95, and every one of them)."""
    alone = range(1, 11)
    behind = await waits(store, clock, 10_000, limit)
    assert all(wait <= 2 * place for place, wait in zip(alone, behind, strict=True)), behind
