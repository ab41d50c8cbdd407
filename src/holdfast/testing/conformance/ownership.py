"""Leases, continued: the holder of a run, what could be claimed, and owners that an outside manager names."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core import events as e
from holdfast.core.status import Status
from holdfast.ports.journal import Committed, Fenced, Park
from holdfast.ports.leases import HeldBy, Lease, Taken
from holdfast.ports.runs import Filter
from holdfast.testing.conformance.suite import Suite, shows
from holdfast.testing.conformance.world import DONE, TTL, World, request, seconds

OPEN = (Status.PENDING, Status.RUNNING)


class OwnershipSuite(Suite):
    """Leases, continued: the holder of a run, what could be claimed, and owners that an outside manager names."""

    # -- who holds it --------------------------------------------------------------------------------------------------

    @shows("stepflow.L2", "stepflow.L8")
    async def test_a_claimed_run_has_a_lease(self, world: World) -> None:
        """Contract: worker, instance, epoch, and an expiry that lies a lease ahead; None before and after."""
        await world.make("r")
        assert await world.store.lease("r") is None
        holder = await world.holder("r")
        assert await world.store.lease("r") == Lease("r", "w1", "i1", 1, world.clock.now() + TTL)
        await holder.parks()
        assert await world.store.lease("r") is None

    @shows("stepflow.L8", "stepflow.M4")
    async def test_a_run_that_nobody_made_has_no_lease(self, world: World) -> None:
        """Contract: None, not an error."""
        assert await world.store.lease("nobody") is None

    @shows("stepflow.L4", "stepflow.L9", "stepflow.L12", "stem.S60")
    async def test_the_expiry_of_a_lease_moves_with_the_heartbeat(self, world: World) -> None:
        """Contract: one beat moves the expiry of everything the instance holds, for every reader."""
        for name in "ab":
            await world.held_run(name)
        world.clock.advance(TTL * 0.5)
        world.store.heart("i1", TTL).beat()
        for name in "ab":
            lease = await world.store.lease(name)
            assert lease is not None
            assert lease.expires_at == world.clock.now() + TTL
            assert await world.store.take(name, instance="operator") == HeldBy("w1", "i1", lease.expires_at)

    @shows("stepflow.L5", "stepflow.L8", "traps.A7")
    async def test_an_expired_lease_is_none_before_anybody_cleared_it(self, world: World) -> None:
        """Contract: expiry counts when the lease is read; the next claim owns the run, and its old holder is
        fenced."""
        holder = await world.held_run("r")
        world.clock.advance(TTL)
        assert await world.store.lease("r") is None
        assert (await world.get("r")).instance == "i1"
        assert isinstance(await world.store.take("r", instance="operator"), Taken)
        assert isinstance(await holder.commit(), Fenced)

    @shows("stepflow.L3", "traps.A7")
    async def test_contention_is_a_value_and_changes_nothing(self, world: World) -> None:
        """Contract: a caller that asks for a held run is told its holder and expiry; lease and run do not change."""
        holder = await world.held_run("r")
        before = await world.dump()
        taking = await world.store.take("r", instance="operator")
        assert taking == HeldBy("w1", "i1", world.clock.now() + TTL)
        assert await world.dump() == before
        assert isinstance(await holder.commit(), Committed)

    @shows("stepflow.L12", "traps.A7")
    async def test_one_of_many_takers_gets_the_run(self, world: World) -> None:
        """Contract: taking is atomic: one is given the run, the others are told of that one."""
        await world.make("r")
        for count in range(8):
            await world.worker(f"i{count}")
        takings = await asyncio.gather(*(world.store.take("r", instance=f"i{count}") for count in range(8)))
        (taken,) = [x for x in takings if isinstance(x, Taken)]
        assert {x.instance for x in takings if isinstance(x, HeldBy)} == {taken.run.instance}
        assert (await world.get("r")).epoch == 1

    @shows("stepflow.L6")
    async def test_a_release_by_somebody_else_leaves_the_lease_in_place(self, world: World) -> None:
        """Contract: a worker without the epoch is refused, and the holder continues."""
        stale = await world.held_run("r")
        world.clock.advance(TTL * 2)
        other = await world.worker("i2")
        world.store.heart("i2", TTL).beat()
        (row,) = (await world.claim(other)).runs
        assert not await world.store.release(stale.no, epoch=stale.epoch, until=None, inbox_seen=0)
        lease = await world.store.lease("r")
        assert lease is not None
        assert (lease.instance, lease.epoch) == ("i2", row.epoch)

    @shows("stepflow.L10")
    async def test_active_runs_are_counted_per_instance(self, world: World) -> None:
        """Contract: three of one and one of another; one given back counts one less."""
        for name, instance in (("a", "i1"), ("b", "i1"), ("c", "i1"), ("d", "i2")):
            await world.held_run(name, instance=instance)
        assert {x.instance: x.active for x in await world.store.workers()} == {"i1": 3, "i2": 1}
        row = await world.get("b")
        await world.store.release(row.no, epoch=row.epoch, until=None, inbox_seen=0)
        assert {x.instance: x.active for x in await world.store.workers()} == {"i1": 2, "i2": 1}

    @shows("stepflow.L10")
    async def test_a_silent_worker_is_listed_with_what_it_still_holds(self, world: World) -> None:
        """Contract: stale, with its runs and when it was last heard of, so that they are found."""
        await world.held_run("r")
        heard = world.clock.now()
        world.clock.advance(TTL * 2)
        (worker,) = await world.store.workers()
        assert (worker.is_live, worker.active, worker.seen_at) == (False, 1, heard)

    @shows("stepflow.L10", "stepflow.R18")
    async def test_a_worker_shows_what_it_last_said(self, world: World) -> None:
        """Contract: progress, recovery and the time of the last beat; each beat replaces them."""
        await world.worker("i1")
        heart = world.store.heart("i1", TTL)
        for count in range(2):
            world.clock.advance(1)
            heart.beat(f"progress {count}", recovery=f"recovery {count}")
            (worker,) = await world.store.workers()
            assert (worker.progress, worker.recovery) == (f"progress {count}", f"recovery {count}")
            assert worker.seen_at == world.clock.now()

    # -- how many a pass frees -----------------------------------------------------------------------------------------

    @shows("stepflow.M10", "stepflow.R2", "stepflow.C1")
    @pytest.mark.parametrize(("frees", "passes"), [(10, [10, 10, 5, 0]), (25, [25, 0]), (100, [25, 0])])
    async def test_a_pass_frees_as_many_as_it_is_told(self, world: World, frees: int, passes: list[int]) -> None:
        """Contract: at most `frees` runs of dead workers a beat; what is left follows with the next."""
        for count in range(25):
            await world.make(f"r{count}")
        gone = await world.worker("i1")
        await world.claim(gone, limit=25)
        world.clock.advance(TTL * 2)
        await world.worker("i2")
        heart = world.store.heart("i2", TTL)
        assert [heart.beat(frees=frees).orphaned for _ in passes] == passes

    async def test_a_pass_frees_the_runs_of_one_dead_worker_after_another(self, world: World) -> None:
        """Contract: in the order of their instances, whichever run is older: all stores recover in the same order."""
        for run, holder in (("a", "i2"), ("b", "i1"), ("c", "i2"), ("d", "i1")):
            await world.held_run(run, instance=holder)
        world.clock.advance(TTL * 2)
        await world.worker("i3")
        heart, freed = world.store.heart("i3", TTL), list[str]()
        while heart.beat(frees=1).orphaned:
            freed += [run for run in "abcd" if run not in freed and (await world.get(run)).instance == ""]
        assert freed == ["b", "d", "a", "c"]

    @shows("stepflow.C1")
    async def test_a_beat_that_frees_none_still_keeps_its_own(self, world: World) -> None:
        """Contract: `frees=0` turns recovery off and nothing else."""
        await world.held_run("dead", instance="i1")
        world.clock.advance(TTL * 0.9)
        await world.held_run("mine", instance="i2")
        heart = world.store.heart("i2", TTL)
        for _ in range(3):
            world.clock.advance(TTL * 0.9)
            now = world.clock.now()
            beat = heart.beat(frees=0)
            assert (beat.now, beat.has_lapsed, beat.orphaned, beat.next_expiry) == (now, False, 0, now)
        assert await world.store.lease("mine") is not None
        assert (await world.get("dead")).instance == "i1"

    async def test_a_beat_says_how_long_there_is_nothing_to_claim(self, world: World) -> None:
        """Contract: until the first run of its queues is due, at most one lease; now if one is due, for any worker. A
        beat of an unknown instance does not say."""
        for name, queue, until in (
            ("soon", "default", TTL / 3),
            ("late", "default", TTL * 3),
            ("other", "else", TTL / 9),
        ):
            await world.worker(f"of {queue}", queues=(queue,))
            await (await world.held_run(name, instance=f"of {queue}", queue=queue)).parks(world.clock.now() + until)
        heart, now = world.store.heart("of default", TTL), world.clock.now()
        assert heart.beat().quiet_until == now + TTL / 3
        world.clock.advance(TTL / 2)
        assert heart.beat().quiet_until == world.clock.now()
        (soon,) = (await world.claim(world.workers["of default"])).runs
        assert heart.beat().quiet_until == world.clock.now() + TTL
        await world.make("stray", "of nobody")
        assert heart.beat().quiet_until == world.clock.now()
        assert soon.id == "soon"
        assert world.store.heart("nobody", TTL).beat().quiet_until is None

    @shows("stepflow.M10", "stepflow.M11")
    async def test_only_what_dead_workers_hold_and_has_not_ended_is_freed(self, world: World) -> None:
        """Contract: ended, unheld and live workers' runs are untouched."""
        await world.held_run("dead")
        await world.ended_run("ended")
        await (await world.held_run("parked")).parks(world.clock.now() + seconds(3600))
        world.clock.advance(TTL * 2)
        await world.held_run("live", instance="i2")
        names = ("ended", "parked", "live")
        before = [await world.get(name) for name in names]
        assert world.store.heart("i2", TTL).beat().orphaned == 1
        assert [await world.get(name) for name in names] == before

    @shows("stepflow.M9", "stepflow.R5", "stepflow.M5")
    async def test_a_freed_run_keeps_the_name_of_its_last_worker(self, world: World) -> None:
        """Contract: who had it last is an index for recovery, not ownership; the next claim writes the new one."""
        await world.held_run("r")
        world.clock.advance(TTL * 2)
        other = await world.worker("i2")
        world.store.heart("i2", TTL).beat()
        row = await world.get("r")
        assert (row.worker, row.instance) == ("w1", "")
        assert [run.id for run in (await world.store.list(Filter(worker="w1", statuses=OPEN))).runs] == ["r"]
        await world.claim(other)
        assert (await world.store.list(Filter(worker="w1", statuses=OPEN))).runs == []
        assert [run.id for run in (await world.store.list(Filter(worker="w2", statuses=OPEN))).runs] == ["r"]

    @shows("stepflow.M5", "stepflow.R1")
    async def test_the_runs_of_one_worker_are_listed_by_status(self, world: World) -> None:
        """Contract: by worker and status together; an empty worker means any."""
        await world.ended_run("ended")
        await world.held_run("mine")
        await world.held_run("other", instance="i2")
        mine = await world.store.list(Filter(worker="w1", statuses=OPEN))
        assert [run.id for run in mine.runs] == ["mine"]
        ended = await world.store.list(Filter(worker="w1", statuses=(Status.COMPLETED,)))
        assert [run.id for run in ended.runs] == ["ended"]
        either = await world.store.list(Filter(worker="w1"))
        assert {run.id for run in either.runs} == {"ended", "mine"}
        assert len((await world.store.list(Filter(statuses=OPEN))).runs) == 2

    # -- what could be claimed -----------------------------------------------------------------------------------------

    @shows("stepflow.R3")
    async def test_looking_at_what_is_due_takes_nothing(self, world: World) -> None:
        """Contract: the runs a claim would take, in its order, as they are; then the claim takes exactly those."""
        worker = await world.worker("i1")
        for name, priority in (("a", 0), ("b", 5), ("c", 1)):
            await world.make(name, priority=priority)
        await world.make("later", available_at=world.clock.now() + seconds(60))
        before = await world.dump()
        due = await world.store.due(request(worker, limit=2))
        assert [run.id for run in due.runs] == ["b", "c"]
        assert all((run.epoch, run.instance, run.claims) == (0, "", 0) for run in due.runs)
        assert await world.dump() == before
        assert [run.id for run in (await world.claim(worker, only=["b", "c"])).runs] == ["b", "c"]
        assert [run.id for run in (await world.store.due(request(worker, limit=2))).runs] == ["a"]

    async def test_what_is_due_tells_when_the_next_is(self, world: World) -> None:
        """Contract: as a claim does."""
        worker = await world.worker("i1")
        later = world.clock.now() + seconds(60)
        await world.make("later", available_at=later)
        assert (await world.store.due(request(worker, limit=5))).next_due == later
        world.clock.advance(60)
        assert [run.id for run in (await world.store.due(request(worker, limit=5))).runs] == ["later"]

    # -- owners whom the store forgot ----------------------------------------------------------------------------------

    @shows("stepflow.R4", "stepflow.M11", "traps.A7")
    async def test_a_run_freed_by_mistake_goes_back_to_its_owner(self, world: World) -> None:
        """Contract: the instance holds it again, however often it reinstates it, and continues with its epoch."""
        holder = await world.held_run("r")
        world.clock.advance(TTL * 2)
        other = await world.worker("i2")
        world.store.heart("i2", TTL).beat()
        assert (await world.get("r")).instance == ""
        world.store.heart("i1", TTL).beat()
        for _ in range(2):
            assert await world.store.reinstate("r", instance="i1", epoch=holder.epoch)
        row = await world.get("r")
        assert (row.worker, row.instance, row.epoch) == ("w1", "i1", holder.epoch)
        assert set(await world.store.held("i1")) == {"r"}
        assert (await world.claim(other)).runs == []
        assert isinstance(await holder.commit(), Committed)

    @shows("stepflow.R4")
    async def test_an_owner_written_back_lives_by_its_own_heartbeat(self, world: World) -> None:
        """Contract: writing an owner back prolongs no lease: one that does not beat loses the run again."""
        holder = await world.held_run("r")
        world.clock.advance(TTL * 2)
        await world.worker("i2")
        heart = world.store.heart("i2", TTL)
        assert heart.beat().orphaned == 1
        assert await world.store.reinstate("r", instance="i1", epoch=holder.epoch)
        assert await world.store.lease("r") is None
        assert heart.beat().orphaned == 1

    @shows("stepflow.R4", "stepflow.M7")
    @pytest.mark.parametrize("state", ["held", "claimed since", "parked since", "ended", "paused", "missing"])
    async def test_nobody_is_put_in_place_of_a_holder(self, world: World, state: str) -> None:
        """Contract: a run that another holds or had since, an ended, paused or missing one is left without a trace."""
        await world.worker("i2")
        if state in {"held", "claimed since", "parked since"}:
            holder = await world.held_run("r")
            if state != "held":
                world.clock.advance(TTL * 2)
                world.store.heart("i2", TTL).beat()
                holder = await world.holder("r", instance="i2")
            if state == "parked since":
                assert isinstance(await holder.commit(park=Park(None)), Committed)
        elif state == "ended":
            await world.ended_run("r")
        elif state == "paused":
            holder = await world.held_run("r")
            await holder.commits(e.Paused(reason="operator"), park=Park(None))
        before = await world.dump()
        instance = "i2" if state in {"held", "ended"} else "i1"
        assert not await world.store.reinstate("r", instance=instance, epoch=1)
        assert await world.dump() == before

    @shows("stepflow.R4")
    @pytest.mark.parametrize("state", ["ended", "unknown"])
    async def test_an_instance_that_is_gone_is_not_written_back(self, world: World, state: str) -> None:
        """Contract: an instance that ended, or is unknown, holds nothing again."""
        await world.held_run("r")
        assert await world.store.release_all("i1") == 1
        before = await world.dump()
        instance = "i1" if state == "ended" else "elsewhere"
        assert not await world.store.reinstate("r", instance=instance, epoch=1)
        assert await world.dump() == before

    # -- handing over --------------------------------------------------------------------------------------------------

    @shows("stepflow.C5", "stepflow.L7")
    async def test_what_a_stopping_worker_gives_back_is_claimed_at_once(self, world: World) -> None:
        """Contract: after `release_all` no worker waits for the lease, no other run moved, the old holder is fenced."""
        holder = await world.held_run("a")
        await world.held_run("b")
        await world.held_run("kept", instance="i2")
        kept = await world.store.lease("kept")
        assert await world.store.release_all("i1") == 2
        other = world.workers["i2"]
        assert sorted(await world.claimed_ids(other)) == ["a", "b"]
        assert isinstance(await holder.commit(DONE), Fenced)
        assert await world.store.lease("kept") == kept

    @shows("stepflow.R20", "stepflow.R1")
    async def test_a_worker_of_another_id_gets_nothing_at_its_start(self, world: World) -> None:
        """Contract: a worker gets the runs of an earlier one with its id at once, those of others after their lease."""
        await world.held_run("r")
        other = await world.worker("i2", takes_over="all")
        assert (await world.claim(other)).runs == []
        again = await world.worker("i3", "w1", takes_over="all")
        assert await world.claimed_ids(again) == ["r"]

    @shows("stepflow.J1", "traps.B1")
    async def test_concurrent_turns_of_one_run_are_one(self, world: World) -> None:
        """Contract: of two holders that write the same ordinal, one commits and the other is fenced; nothing is
        mixed."""
        first = await world.held_run("r")
        second = await world.reader(first.row)
        verdicts = await asyncio.gather(
            first.commit(e.StepScheduled(key="one")), second.commit(e.StepScheduled(key="two"))
        )
        assert sorted(type(verdict).__name__ for verdict in verdicts) == ["Committed", "Fenced"]
        assert (await world.get("r")).next_ordinal == 3
