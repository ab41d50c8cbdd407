"""Leases, continued: claims are fair by share, and every run that begins passes one rule of admission."""

from __future__ import annotations

import pytest

from holdfast.core.shares import Shares, fair_order
from holdfast.ports.leases import Taken, WorkerRow
from holdfast.ports.runs import Made
from holdfast.testing.conformance.suite import Suite
from holdfast.testing.conformance.world import TTL, World, request, seconds

FLOOD = 60


async def worker_of(world: World, *workflows: str, instance: str = "i1") -> WorkerRow:
    return await world.worker(instance, definitions=tuple((workflow, "") for workflow in workflows))


async def flood(world: World, workflow: str, count: int = FLOOD, **facts: int) -> None:
    """That many runs of a workflow, due one after the other and before everything that comes later."""
    for number in range(count):
        await world.make(f"{workflow}-{number:03}", workflow, **facts)
        world.clock.advance(0.001)


async def taken(world: World, worker: WorkerRow, limit: int) -> list[str]:
    return [run.workflow for run in (await world.claim(worker, limit=limit)).runs]


class SharesSuite(Suite):
    """Leases, continued: fair claims."""

    @pytest.mark.parametrize("limit", [1, 2, 7])
    @pytest.mark.parametrize("priority", [0, 5])
    async def test_a_flood_of_one_share_never_starves_another(self, world: World, limit: int, priority: int) -> None:
        """Contract (L6): behind any number of runs of one share, and whatever their priority, a run of another is taken
        by the next claim of two, however small claims are; again and again."""
        worker = await worker_of(world, "flood", "rare")
        await flood(world, "flood", priority=priority)
        assert set(await taken(world, worker, limit)) == {"flood"}
        for number in range(5):
            await world.make(f"rare-{number}", "rare")
            assert "rare" in [*await taken(world, worker, limit), *await taken(world, worker, limit)]

    @pytest.mark.parametrize("limit", [1, 3, 10])
    async def test_floods_take_turns(self, world: World, limit: int) -> None:
        """Contract: shares that all have due runs get equally many, give or take one."""
        names = ("a", "b", "c")
        worker = await worker_of(world, *names)
        for name in names:
            await flood(world, name, 20)
        found: list[str] = []
        while len(found) < 30:
            found += await taken(world, worker, limit)
            counts = [found.count(name) for name in names]
            assert max(counts) - min(counts) <= 1, found

    async def test_a_share_that_was_away_has_no_credit(self, world: World) -> None:
        """Contract: a share without runs for long comes back level with the others: it does not catch up first."""
        worker = await worker_of(world, "a", "b")
        await flood(world, "a", 40)
        assert await taken(world, worker, 20) == ["a"] * 20
        await flood(world, "b", 20)
        assert sorted(await taken(world, worker, 10)) == ["a"] * 5 + ["b"] * 5

    async def test_versions_of_a_workflow_are_one_share(self, world: World) -> None:
        """Contract: the default share is the workflow, whatever its version."""
        worker = await world.worker("i1", definitions=(("a", ""), ("a", "2"), ("b", "")))
        for number in range(10):
            for version in ("", "2"):
                await world.make(f"a{version}-{number}", "a", version=version)
            await world.make(f"b-{number}", "b")
        found = await taken(world, worker, 10)
        assert found.count("b") == 5

    async def test_within_a_share_priority_and_time_decide(self, world: World) -> None:
        """Contract: higher priority first, then available time, among the runs of one share."""
        worker = await worker_of(world, "a", "b")
        for run, workflow, priority in (("a1", "a", 0), ("a2", "a", 3), ("b1", "b", 0), ("a3", "a", 3), ("b2", "b", 9)):
            await world.make(run, workflow, priority=priority)
            world.clock.advance(1)
        order = [run.id for run in (await world.claim(worker)).runs]
        assert [run for run in order if run[0] == "a"] == ["a2", "a3", "a1"]
        assert [run for run in order if run[0] == "b"] == ["b2", "b1"]
        assert order == ["b2", "a2", "a3", "b1", "a1"]

    async def test_each_claimer_counts_for_itself(self, world: World) -> None:
        """Contract: what one instance took does not affect another's turn."""
        one, other = await worker_of(world, "a", "b"), await worker_of(world, "a", "b", instance="i2")
        await flood(world, "a", 10)
        await flood(world, "b", 10)
        assert await taken(world, one, 1) == await taken(world, other, 1) == ["a"]
        assert await taken(world, one, 1) == await taken(world, other, 1) == ["b"]

    async def test_runs_that_begin_without_a_claim_count(self, world: World) -> None:
        """Contract: a run that is made already claimed, and one that is taken, are a turn of their share; neither is
        refused for it."""
        worker = await worker_of(world, "a", "b")
        await flood(world, "a", 10)
        await flood(world, "b", 10)
        assert await taken(world, worker, 2) == ["a", "b"]
        made = await world.create(world.new("begun", "a"), instance="i1", worker="w1")
        assert isinstance(made, Made)
        assert made.run.instance == "i1"
        assert await taken(world, worker, 1) == ["b"]
        await world.make("parked", "b", available_at=world.clock.now() + seconds(3600))
        assert isinstance(await world.store.take("parked", instance="i1"), Taken)
        assert await taken(world, worker, 2) == ["a", "a"]

    async def test_a_claim_that_found_nothing_begins_the_count(self, world: World) -> None:
        """Contract: from its first claim on, whatever that took, an instance is one that claims: its runs count."""
        worker = await worker_of(world, "a", "b")
        assert await taken(world, worker, 1) == []
        assert isinstance(await world.create(world.new("begun", "a"), instance="i1", worker="w1"), Made)
        await flood(world, "a", 3)
        await flood(world, "b", 3)
        assert await taken(world, worker, 2) == ["b", "a"]

    async def test_looking_is_no_turn(self, world: World) -> None:
        """Contract: `due` gives the order of the next claim, and changes nothing. Claiming `only` those counts."""
        worker = await worker_of(world, "a", "b")
        await flood(world, "a", 10)
        await flood(world, "b", 10)
        for _ in range(3):
            found = (await world.store.due(request(worker, limit=4))).runs
            assert [run.id for run in found] == ["a-000", "b-000", "a-001", "b-001"]
        assert [run.id for run in (await world.claim(worker, only=["a-000"])).runs] == ["a-000"]
        assert await taken(world, worker, 1) == ["b"]

    async def test_an_instance_that_has_left_is_forgotten(self, world: World) -> None:
        """Contract: a worker that registers again begins level."""
        worker = await worker_of(world, "a", "b")
        await flood(world, "a", 10)
        await flood(world, "b", 10)
        assert await taken(world, worker, 1) == ["a"]
        await world.store.release_all("i1")
        await world.store.register(worker, TTL, takes_over="none")
        assert await taken(world, worker, 1) == ["a"]

    async def test_the_order_is_that_of_the_rule(self, world: World) -> None:
        """Contract: claim after claim, the order is that of `core.shares`."""
        names = ("a", "b", "c", "d")
        worker = await worker_of(world, *names)
        for number in range(24):
            await world.make(f"r{number:02}", names[number * number % 7 % 4], priority=number % 3)
            world.clock.advance(1)
        left = {run.id: run for run in await world.runs()}
        shares = Shares()
        for limit in (1, 5, 2, 9, 1, 3):
            found = (await world.claim(worker, limit=limit)).runs
            wanted = fair_order(
                left.values(),
                share=lambda run: run.workflow,
                place=lambda run: (-run.priority, run.available_at, run.no),
                ahead=shares.ahead,
            )[:limit]
            assert [run.id for run in found] == [run.id for run in wanted]
            shares.took(run.workflow for run in wanted)
            for run in wanted:
                del left[run.id]
