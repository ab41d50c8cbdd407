"""Queues, continued: shares take turns."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from holdfast.core.gate import CATCH_UP, MANY
from holdfast.testing.conformance.queues import end, mail_worker, make, rules
from holdfast.testing.conformance.suite import Suite
from holdfast.testing.conformance.world import World, seconds


class QueueSharesSuite(Suite):
    """What a store must do for the shares of a queue."""

    async def test_shares_take_turns(self, world: World) -> None:
        """Contract: round robin between the shares that have runs waiting, whatever their number, priority and age;
        over all workers together."""
        await rules(world, at_once=100)
        one, other = await mail_worker(world), await mail_worker(world, "i2")
        for number in range(12):
            await make(world, f"a{number:02}", share="a", priority=9)
        for number in range(3):
            await make(world, f"b{number}", share="b")
            await make(world, f"c{number}", share="c")
        taken: list[str] = []
        for worker in (one, other, one, one, other, one, other, other, one):
            taken += await world.claimed_ids(worker, limit=1)
        assert Counter(run[0] for run in taken) == {"a": 3, "b": 3, "c": 3}
        assert all(len({run[0] for run in taken[place : place + 3]}) == 3 for place in (0, 3, 6))

    @pytest.mark.parametrize("limit", [1, 4, 10])
    async def test_weights_are_kept(self, world: World, limit: int) -> None:
        """Contract: a share of weight 3 begins three runs for each of a share of weight 1."""
        await rules(world, weights={"gold": 3.0})
        worker = await mail_worker(world)
        for number in range(30):
            await make(world, f"gold{number:02}", share="gold")
            await make(world, f"iron{number:02}", share="iron")
        taken: list[str] = []
        while len(taken) < 20:
            taken += await world.claimed_ids(worker, limit=limit)
        counts = Counter(run[:4] for run in taken[:20])
        assert abs(counts["gold"] - 15) <= 1, counts

    async def test_priority_and_time_decide_within_a_share(self, world: World) -> None:
        """Contract: within a share higher priority first, then the time since which a run is due; a priority says
        nothing about other shares."""
        await rules(world, at_once=10)
        worker = await mail_worker(world)
        for run, share, priority in (("a1", "a", 0), ("a2", "a", 5), ("b1", "b", 1), ("a3", "a", 5), ("b2", "b", 9)):
            await make(world, run, share=share, priority=priority)
            world.clock.advance(1)
        order = await world.claimed_ids(worker)
        assert [run for run in order if run[0] == "a"] == ["a2", "a3", "a1"]
        assert [run for run in order if run[0] == "b"] == ["b2", "b1"]

    async def test_a_run_without_a_share_competes_as_its_workflow(self, world: World) -> None:
        """Contract: a flood of one workflow does not keep another waiting, also at a gate."""
        await rules(world, at_once=10)
        worker = await mail_worker(world)
        for number in range(8):
            await make(world, f"order{number}")
        await make(world, "parcel", workflow="parcel")
        assert "parcel" in await world.claimed_ids(worker, limit=2)

    async def test_a_share_has_its_own_at_once(self, world: World) -> None:
        """Contract: a share that has all its places is passed over, and the others are not."""
        await rules(world, share_at_once=2)
        worker = await mail_worker(world)
        for number in range(4):
            await make(world, f"a{number}", share="a")
        await make(world, "b0", share="b")
        assert sorted(await world.claimed_ids(worker)) == ["a0", "a1", "b0"]
        assert (await world.claim(worker)).is_held_back
        await end(world, "a0")
        assert await world.claimed_ids(worker) == ["a2"]

    async def test_a_share_that_was_away_may_catch_up_a_few_turns(self, world: World) -> None:
        """Contract: as many as `CATCH_UP` and its own turn. One that runs empty after each run may do so once: then it
        takes turns with the others."""
        await rules(world, at_once=100)
        worker = await mail_worker(world)
        for number in range(40):
            await make(world, f"a{number:02}", share="a")
        await world.claim(worker, limit=20)
        taken = ""
        for number in range(CATCH_UP + 11):
            await make(world, f"b{number:02}", share="b")
            (run,) = await world.claimed_ids(worker, limit=1)
            taken += run[0]
        assert taken.startswith("b" * (CATCH_UP + 1)), taken
        assert taken[CATCH_UP + 1 :].count("b") == 5, taken

    @pytest.mark.parametrize("before", [0, 2, 24])
    async def test_ten_runs_wait_at_most_twice_as_long_behind_a_flood(self, world: World, before: int) -> None:
        """Promise (L6): in time, in a queue with two places whose runs take ten seconds each: ten runs of a share begin
        within eighty seconds, twice what they take alone; with the flood, as it begins, or when it has long been there.
        They come as the places have just been taken."""
        await rules(world, at_once=2)
        worker = await mail_worker(world)
        for number in range(before + MANY + 5):
            await make(world, f"flood{number:03}", share="flood")
        held: list[str] = []
        for _ in range(before // 2):
            for run in held:
                await end(world, run)
            held = await world.claimed_ids(worker)
            world.clock.advance(10)
        came, last, small = world.clock.now() - seconds(10 if before else 0), world.clock.now(), 0
        for number in range(10):
            await make(world, f"small{number}", share="small")
        while small < 10:
            for run in held:
                await end(world, run)
            held = await world.claimed_ids(worker)
            found = sum(run.startswith("small") for run in held)
            small, last = small + found, world.clock.now() if found else last
            world.clock.advance(10)
        assert last - came <= 2 * seconds(40)

    async def test_a_share_with_more_runs_than_it_notices_does_not_catch_up(self, world: World) -> None:
        """Contract: a flood takes turns from its first run on, so a few runs that began before it are not held up."""
        await rules(world, at_once=100)
        worker = await mail_worker(world)
        for number in range(10):
            await make(world, f"a{number}", share="a")
        assert len(await world.claimed_ids(worker, limit=4)) == 4
        for number in range(MANY + 1):
            await make(world, f"b{number:03}", share="b")
        order = await world.claimed_ids(worker, limit=7)
        assert sum(run[0] == "b" for run in order) == 1, order

    async def test_a_share_that_was_held_back_by_its_own_places_does_not_save_turns(self, world: World) -> None:
        """Contract: what it could not use longer ago is lost."""
        await rules(world, share_at_once=20)
        worker = await mail_worker(world)
        for number in range(40):
            await make(world, f"a{number:02}", share="a")
            if number < 20:
                assert len(await world.claimed_ids(worker)) == 1
        for number in range(60):
            await make(world, f"b{number:02}", share="b")
            if number < 40:
                (run,) = await world.claimed_ids(worker, limit=1)
                await end(world, run)
        for number in range(20):
            await end(world, f"a{number:02}")
        order = await world.claimed_ids(worker, limit=16)
        assert sum(run[0] == "b" for run in order) >= 3, order

    async def test_a_share_orders_runs_in_a_queue_without_rules(self, world: World) -> None:
        """Contract: a run that names a share waits at the gate of any queue; beside runs without one, all of them
        together are one more share."""
        worker = await world.worker()
        for number in range(6):
            await world.make(f"a{number}", share="a")
        await world.make("b0", share="b")
        await world.make("plain", "parcel")
        assert sorted(await world.claimed_ids(worker, limit=3)) == ["a0", "b0", "plain"]

    async def test_a_delayed_run_with_a_share_comes_to_a_gate_that_nobody_used(self, world: World) -> None:
        """Contract: when it is due the next claim takes it, even if the queue never had rules or shares."""
        worker = await world.worker()
        await world.make("later", share="a", available_at=world.clock.now() + seconds(5))
        assert await world.claimed_ids(worker) == []
        world.clock.advance(5)
        assert await world.claimed_ids(worker) == ["later"]

    async def test_a_tenant_with_much_to_do_does_not_delay_another(self, world: World) -> None:
        """Contract: in claims, a run of a share with few runs waits at most twice as long as it would alone among as
        many shares, however many runs the other share has."""
        await rules(world, at_once=1000)
        worker = await mail_worker(world)
        for number in range(200):
            await make(world, f"flood{number:03}", share="flood")
        await world.claim(worker, limit=50)
        for number in range(10):
            await make(world, f"few{number}", share="few")
        order: list[str] = []
        while sum(run.startswith("few") for run in order) < 10:
            order += await world.claimed_ids(worker, limit=1)
        places = [place for place, run in enumerate(order) if run.startswith("few")]
        assert all(after - before <= 2 for before, after in pairwise([-1, *places])), order
