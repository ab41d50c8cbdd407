"""What an operator writes without the worker that holds a run."""

from __future__ import annotations

import pytest

from holdfast.adapters.memory import MemoryStore, VirtualClock
from holdfast.client.verification import verify_run
from holdfast.core import events as e
from holdfast.core.run import Run
from holdfast.core.status import Status
from holdfast.errors import RunNotFound
from holdfast.ports.journal import Fenced, sole_verdict
from holdfast.testing.conformance.world import START, TTL, World
from holdfast.upkeep.imposition import impose, kill


@pytest.fixture
def world() -> World:
    clock = VirtualClock(START)
    return World(MemoryStore(clock), clock)


async def test_a_kill_ends_a_run_that_a_worker_holds_and_fences_the_worker(world: World) -> None:
    """Contract: the run has ended once `kill` returns, and what its holder writes afterwards is refused."""
    held = await world.held_run("r")
    assert await kill(world.store, "r", reason="stuck", actor="ada")
    row = await world.store.get("r")
    assert row is not None
    assert row.status is Status.CANCELLED
    assert isinstance(sole_verdict(await world.store.commit([held.turn()])), Fenced)


async def test_without_steal_a_live_holder_is_left_alone(world: World) -> None:
    await world.held_run("r")
    before = await world.store.get("r")
    assert not await impose(world.store, "r", lambda run: [], steal=False)
    assert await world.store.get("r") == before


async def test_an_operator_who_dies_meanwhile_costs_the_run_nothing(world: World) -> None:
    """Promise: `verify` knows the holder, and the next heartbeat of a worker frees the run."""

    def die(run: Run) -> list[e.AnyEvent]:
        raise RuntimeError("the operator's process is killed here")

    await world.make("r")
    with pytest.raises(RuntimeError):
        await impose(world.store, "r", die, steal=False)
    row = await world.get("r")
    assert row.instance
    assert not [problem for problem in (await verify_run(world.store, row)).problems if row.instance in problem]
    worker = await world.worker("i1")
    world.store.heart(worker.instance, TTL).beat()
    assert await world.claimed_ids(worker) == ["r"]


async def test_an_unknown_run_is_named(world: World) -> None:
    with pytest.raises(RunNotFound, match="no run 'nobody'"):
        await kill(world.store, "nobody", reason="", actor="ada")
