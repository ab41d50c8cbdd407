"""Leases, continued: what the death of an instance means for the runs it held."""

from __future__ import annotations

import pytest

from holdfast.core import events as e
from holdfast.ports.journal import Park
from holdfast.ports.leases import Taken, WorkerRow
from holdfast.ports.runs import Filter
from holdfast.testing.conformance.suite import Suite
from holdfast.testing.conformance.world import TTL, World, request, signal

NOTHING = (0, 0, 0)


async def begins(world: World, number: int) -> WorkerRow:
    """Starts the next instance of one worker after the one before it died: its runs are free."""
    return await world.worker(f"i{number}", "w", takes_over="all")


async def against(world: World, run: str) -> tuple[int, int, int]:
    """The evidence against a run."""
    row = await world.get(run)
    return row.deaths, row.solo, row.alone


async def with_suspects(world: World, *runs: str) -> WorkerRow:
    """Makes these runs free suspects; the worker's next instance has begun."""
    for run in runs:
        await world.make(run)
    assert await world.claimed_ids(await begins(world, 1), limit=len(runs)) == list(runs)
    return await begins(world, 2)


class SuspectsSuite(Suite):
    """Leases, continued: what the death of an instance means for the runs it held."""

    async def test_a_run_without_progress_is_a_suspect_when_its_instance_dies(self, world: World) -> None:
        """Contract: a run that was freed from a dead instance, claimed and without progress since, is a suspect; one
        that made progress under the claim is not."""
        worker = await begins(world, 1)
        moving = await world.held_run("moving")
        await moving.commits()
        await world.held_run("stuck")
        assert await against(world, "stuck") == NOTHING
        assert sorted(await world.store.register(worker, TTL, takes_over="all")) == []
        await begins(world, 2)
        assert await against(world, "stuck") == (1, 0, 0)
        assert await against(world, "moving") == NOTHING

    @pytest.mark.parametrize("how", ["heartbeat", "start"])
    async def test_whoever_finds_the_dead_makes_suspects(self, world: World, how: str) -> None:
        """Contract: it does not matter whether a heartbeat of another worker frees the runs or the worker's next
        start."""
        await world.held_run("r")
        if how == "start":
            await world.worker("i2", "w1", takes_over="all")
        else:
            world.clock.advance(TTL.total_seconds())
            await world.worker("i2")
            assert world.store.heart("i2", TTL).beat().orphaned == 1
        assert await against(world, "r") == (1, 0, 0)

    async def test_an_instance_takes_one_suspect_at_a_time(self, world: World) -> None:
        """Contract: a claim takes at most one suspect, and none while the instance holds one; fresh runs as before."""
        worker = await with_suspects(world, "a", "b", "c")
        await world.make("fresh")
        assert await world.claimed_ids(worker) == ["a", "fresh"]
        await world.make("later")
        assert await world.claimed_ids(worker) == ["later"]
        assert await world.claimed_ids(await world.worker("other")) == ["b"]
        assert await world.claimed_ids(await world.worker("third")) == ["c"]

    async def test_suspects_hide_no_fresh_run(self, world: World) -> None:
        """Contract: fresh runs behind many suspects are claimed all the same, and the claim is full."""
        names = [f"s{number}" for number in range(8)]
        worker = await with_suspects(world, *names)
        for name in ("x", "y", "z"):
            await world.make(name)
        assert await world.claimed_ids(worker, limit=3) == ["s0", "x", "y"]
        claims = await world.claim(worker, limit=3)
        assert ([run.id for run in claims.runs], claims.next_due) == (["z"], None)

    async def test_a_suspect_of_higher_priority_does_not_take_two_places(self, world: World) -> None:
        """Contract: the suspect that is taken is the first in the order of claims."""
        await world.make("low")
        await world.make("high", priority=5)
        assert sorted(await world.claimed_ids(await begins(world, 1))) == ["high", "low"]
        assert await world.claimed_ids(await begins(world, 2)) == ["high"]

    async def test_claims_by_name_keep_to_one_suspect(self, world: World) -> None:
        """Contract: `only` changes nothing in it, and what is due is what a claim would take."""
        worker = await with_suspects(world, "a", "b")
        await world.make("fresh")
        due = await world.store.due(request(worker, limit=10))
        assert [run.id for run in due.runs] == ["a", "fresh"]
        assert [run.id for run in (await world.claim(worker, only=["b", "a", "fresh"])).runs] == ["a", "fresh"]
        assert [run.id for run in (await world.claim(worker, only=["b"])).runs] == []
        assert [run.id for run in (await world.store.due(request(worker, limit=10))).runs] == []

    async def test_progress_clears_a_suspect_and_the_next_is_taken(self, world: World) -> None:
        """Contract: a turn that is progress clears the run at once; one that only takes it up again does not."""
        worker = await with_suspects(world, "a", "b")
        (row,) = (await world.claim(worker)).runs
        assert (row.id, row.claims, row.deaths) == ("a", 2, 1)
        holder = await world.reader(row)
        await holder.commits(e.Claimed(worker="w"), is_progress=False)
        assert await against(world, "a") == (1, 0, 0)
        assert await world.claimed_ids(worker) == []
        await holder.commits()
        assert await against(world, "a") == NOTHING
        assert await world.claimed_ids(worker) == ["b"]

    @pytest.mark.parametrize("how", ["park", "release", "release all", "end"])
    async def test_giving_it_back_clears_a_suspect(self, world: World, how: str) -> None:
        """Contract: a worker that can give a run back was not killed by it."""
        worker = await with_suspects(world, "a")
        (row,) = (await world.claim(worker)).runs
        holder = await world.reader(row)
        match how:
            case "park":
                await holder.commits(park=Park(None))
            case "release":
                assert await world.store.release(row.no, epoch=row.epoch, until=world.clock.now(), inbox_seen=0)
            case "end":
                await holder.commits(e.Cancelled(reason="enough"))
            case _:
                assert await world.store.release_all("i2") == 1
        assert await against(world, "a") == NOTHING
        await world.store.send(signal("a", "m"))
        again = await begins(world, 3)
        assert [run.deaths for run in (await world.claim(again)).runs] == ([] if how == "end" else [0])

    async def test_a_suspect_that_lived_through_its_trial_is_cleared(self, world: World) -> None:
        """Contract: `acquit` clears what stands against a run its holder still has; its claims are still counted."""
        worker = await with_suspects(world, "a", "b")
        (row,) = (await world.claim(worker)).runs
        assert not await world.store.acquit(row.no, epoch=row.epoch - 1)
        assert await against(world, "a") == (1, 0, 0)
        assert await world.store.acquit(row.no, epoch=row.epoch)
        assert await against(world, "a") == NOTHING
        assert (await world.get("a")).claims == 2
        assert await world.claimed_ids(worker) == ["b"]
        await begins(world, 3)
        assert not await world.store.acquit(row.no, epoch=row.epoch)
        assert await against(world, "a") == (1, 0, 0)

    async def test_a_death_with_one_suspect_aboard_counts_against_it(self, world: World) -> None:
        """Contract: `solo` with fresh runs beside it, `alone` too without any; the fresh ones, claimed once, are
        suspects then, and nothing more."""
        worker = await with_suspects(world, "a")
        await world.make("fresh")
        assert await world.claimed_ids(worker) == ["a", "fresh"]
        await begins(world, 3)
        assert await against(world, "a") == (2, 1, 0)
        assert await against(world, "fresh") == (1, 0, 0)
        assert [run.id for run in (await world.claim(await begins(world, 4), only=["a"])).runs] == ["a"]
        await begins(world, 5)
        assert await against(world, "a") == (3, 2, 1)
        assert await against(world, "fresh") == (1, 0, 0)
        (row,) = (await world.claim(world.workers["i5"], only=["a"])).runs
        assert (row.claims, row.deaths, row.solo, row.alone) == (4, 3, 2, 1)
        await (await world.reader(row)).commits()
        assert await against(world, "a") == NOTHING

    async def test_a_death_with_two_suspects_aboard_counts_against_neither(self, world: World) -> None:
        """Contract: an operator may take a second one; then the cause is unknown."""
        worker = await with_suspects(world, "a", "b")
        assert await world.claimed_ids(worker) == ["a"]
        assert isinstance(await world.store.take("b", instance="i2"), Taken)
        await world.make("fresh")
        assert await world.claimed_ids(worker) == ["fresh"]
        await begins(world, 3)
        assert await world.store.held("i2") == {}
        assert await against(world, "fresh") == (1, 0, 0)
        assert await against(world, "a") == (2, 0, 0)
        assert await against(world, "b") == (2, 0, 0)

    async def test_who_is_to_blame_does_not_depend_on_how_many_are_freed_at_once(self, world: World) -> None:
        """Contract: an instance whose runs are freed one by one died once, while holding all of them."""
        worker = await with_suspects(world, "a")
        for name in ("x", "y"):
            await world.make(name)
        assert await world.claimed_ids(worker) == ["a", "x", "y"]
        world.clock.advance(TTL.total_seconds())
        await world.worker("other")
        heart = world.store.heart("other", TTL)
        assert [heart.beat(frees=1).orphaned for _ in range(4)] == [1, 1, 1, 0]
        assert await against(world, "a") == (2, 1, 0)
        assert [await against(world, name) for name in ("x", "y")] == [(1, 0, 0), (1, 0, 0)]

    async def test_an_instance_that_beats_again_takes_its_counts_back(self, world: World) -> None:
        """Contract: it had not died: what its end counted, claim included, is taken back, and nothing else."""
        worker = await with_suspects(world, "a", "b")
        assert await world.claimed_ids(worker) == ["a"]
        world.clock.advance(TTL.total_seconds())
        await world.worker("other")
        assert world.store.heart("other", TTL).beat().orphaned == 1
        row = await world.get("a")
        assert (row.claims, row.deaths, row.solo, row.alone) == (2, 2, 1, 1)
        assert world.store.heart("i2", TTL).beat().has_lapsed
        row = await world.get("a")
        assert (row.claims, row.deaths, row.solo, row.alone) == (1, 1, 0, 0)
        assert await against(world, "b") == (1, 0, 0)
        world.store.heart("i2", TTL).beat()
        assert await against(world, "a") == (1, 0, 0)

    async def test_a_beat_that_takes_back_and_frees_blames_nobody_twice(self, world: World) -> None:
        """Contract: the counts are taken back before the same beat frees the run from an operator who is gone."""
        await world.make("a")
        assert await world.claimed_ids(await world.worker("i1")) == ["a"]
        world.clock.advance(TTL.total_seconds())
        await world.worker("other")
        assert world.store.heart("other", TTL).beat().orphaned == 1
        assert await against(world, "a") == (1, 0, 0)
        assert isinstance(await world.store.take("a", instance="operator"), Taken)
        assert world.store.heart("i1", TTL).beat().orphaned == 1
        row = await world.get("a")
        assert (row.instance, row.claims, row.deaths) == ("", 0, 0)

    async def test_an_instance_that_was_busy_all_the_while_takes_nothing_back(self, world: World) -> None:
        """Contract: a heartbeat that says so does not change the counts: its run kept it from beating."""
        worker = await with_suspects(world, "a")
        assert await world.claimed_ids(worker) == ["a"]
        world.clock.advance(TTL.total_seconds())
        await world.worker("other")
        world.store.heart("other", TTL).beat()
        assert world.store.heart("i2", TTL).beat(takes_back=False).has_lapsed
        assert await against(world, "a") == (2, 1, 1)

    async def test_what_happened_since_is_not_taken_back(self, world: World) -> None:
        """Contract: a run that made progress, or whose next holder died too, keeps the counts of that."""
        worker = await with_suspects(world, "a")
        await world.make("x")
        assert await world.claimed_ids(worker) == ["a", "x"]
        world.clock.advance(TTL.total_seconds())
        other = await world.worker("other", "o")
        world.store.heart("other", TTL).beat()
        assert await world.claimed_ids(other) == ["a"]
        moving = await world.reader((await world.claim(await world.worker("third"))).runs[0])
        await moving.commits()
        await world.worker("next", "o", takes_over="all")
        assert world.store.heart("i2", TTL).beat().has_lapsed
        assert await against(world, "a") == (3, 2, 1)
        row = await world.get("x")
        assert (row.claims, row.deaths) == (0, 0)

    async def test_an_owner_that_is_written_back_had_not_died(self, world: World) -> None:
        """Contract: `reinstate` takes back what was counted when the run was taken for free."""
        worker = await with_suspects(world, "a")
        assert await world.claimed_ids(worker) == ["a"]
        world.clock.advance(TTL.total_seconds())
        await world.worker("other")
        world.store.heart("other", TTL).beat()
        assert await against(world, "a") == (2, 1, 1)
        freed = await world.get("a")
        assert await world.store.reinstate("a", instance="i2", epoch=freed.epoch)
        row = await world.get("a")
        assert (row.instance, row.claims, row.deaths, row.solo, row.alone) == ("i2", 1, 1, 0, 0)

    async def test_suspects_are_listed(self, world: World) -> None:
        """Contract: a filter finds them, held or not."""
        worker = await with_suspects(world, "a", "b")
        await world.make("fresh")
        await world.claim(worker)
        page = await world.store.list(Filter(is_suspect=True))
        assert sorted(run.id for run in page.runs) == ["a", "b"]
