"""Leases: what a claim takes, in which order, and what it leaves alone."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core import events as e
from holdfast.core.status import Status
from holdfast.ports.journal import Committed, Park
from holdfast.testing.conformance.suite import Suite, shows
from holdfast.testing.conformance.world import TTL, World, seconds, signal


class ClaimSuite(Suite):
    """Leases: what a claim takes, in which order, and what it leaves alone."""

    @shows("stepflow.M1")
    async def test_a_claim_takes_due_runs(self, world: World) -> None:
        """Contract: epoch + 1, claims + 1, this instance; the status moves with the first turn only."""
        worker = await world.worker("i1")
        made = await world.make("r")
        (row,) = (await world.claim(worker)).runs
        assert row == await world.get("r")
        assert (row.no, row.id, row.status) == (made.no, "r", Status.PENDING)
        assert (row.epoch, row.claims, row.worker, row.instance) == (1, 1, "w1", "i1")
        assert (await world.claim(worker)).runs == []

    async def test_higher_priority_comes_first_then_the_longest_wait(self, world: World) -> None:
        """Contract: by descending priority, then by available time."""
        worker = await world.worker("i1")
        for name, priority in (("a", 0), ("b", 5), ("c", -1), ("d", 5), ("e", 0)):
            await world.make(name, priority=priority)
            world.clock.advance(1)
        await world.make("f", priority=5, available_at=world.clock.now() - seconds(60))
        assert await world.claimed_ids(worker) == ["f", "b", "d", "a", "e", "c"]

    async def test_runs_due_in_one_instant_are_taken_in_the_order_they_were_made(self, world: World) -> None:
        """Contract: no run is passed over for a newer one of the same priority and time."""
        worker = await world.worker("i1")
        for name in "fedcba":
            await world.make(name)
        assert await world.claimed_ids(worker, limit=3) == ["f", "e", "d"]
        assert await world.claimed_ids(worker, limit=3) == ["c", "b", "a"]

    async def test_a_claim_takes_no_more_than_its_limit(self, world: World) -> None:
        """Contract: `limit` runs at most; none for 0."""
        worker = await world.worker("i1")
        for count in range(5):
            await world.make(f"r{count}")
        assert await world.claimed_ids(worker, limit=0) == []
        assert len(await world.claimed_ids(worker, limit=3)) == 3
        assert len(await world.claimed_ids(worker, limit=3)) == 2

    async def test_a_claim_looks_at_the_workers_queues_only(self, world: World) -> None:
        """Contract: runs of other queues are left alone."""
        for name, queue in (("a", "default"), ("b", "fast"), ("c", "slow")):
            await world.make(name, queue=queue)
        worker = await world.worker("i1", queues=("fast", "slow"))
        assert await world.claimed_ids(worker) == ["b", "c"]
        assert (await world.get("a")).epoch == 0

    async def test_only_limits_a_claim_to_some_runs(self, world: World) -> None:
        """Contract: `only` names the runs that may be taken; it does not make a run due."""
        worker = await world.worker("i1")
        for name in "abc":
            await world.make(name)
        await world.make("later", available_at=world.clock.now() + seconds(60))
        claims = await world.claim(worker, only=["b", "later", "nobody"])
        assert [run.id for run in claims.runs] == ["b"]
        assert await world.claimed_ids(worker) == ["a", "c"]

    async def test_a_run_is_claimed_by_one_worker(self, world: World) -> None:
        """Contract: of concurrent claims each run goes to one."""
        workers = [await world.worker(f"i{count}") for count in range(5)]
        for count in range(20):
            await world.make(f"r{count}")
        taken = await asyncio.gather(*(world.claim(worker, limit=7) for worker in workers))
        ids = [run.id for claims in taken for run in claims.runs]
        assert len(ids) == len(set(ids)) == 20
        for worker, claims in zip(workers, taken, strict=True):
            assert set(await world.store.held(worker.instance)) == {run.id for run in claims.runs}

    async def test_held_paused_ended_and_early_runs_are_left_alone(self, world: World) -> None:
        """Contract: only due, unheld, unended, unpaused runs are taken, whatever their inbox holds."""
        await world.held_run("held")
        await (await world.held_run("paused")).commits(e.Paused(reason="operator"), park=Park(world.clock.now()))
        await world.ended_run("ended")
        await world.make("early", available_at=world.clock.now() + seconds(1))
        await (await world.held_run("parked")).parks()
        for name in ("held", "paused"):
            await world.store.send(signal(name, "m"))
        other = await world.worker("i2")
        before = [await world.get(name) for name in ("held", "paused", "ended", "early", "parked")]
        assert (await world.claim(other)).runs == []
        assert [await world.get(name) for name in ("held", "paused", "ended", "early", "parked")] == before

    @pytest.mark.parametrize("others", [0, 3], ids=["alone", "with others"])
    async def test_a_run_that_goes_on_although_nobody_holds_it_is_claimable(self, world: World, others: int) -> None:
        """Contract: a turn of the last epoch that resumes a run without a holder leaves it to the next claim, at the
        time for which it was released; committed alone or with others."""
        holders = [await world.held_run(f"r{number}") for number in range(others + 1)]
        until = world.clock.now() + seconds(10)
        for holder in holders:
            await holder.commits(e.Paused(reason="operator"), park=Park(until))
        verdicts = await world.store.commit([holder.turn(e.Resumed()) for holder in holders])
        assert all(isinstance(verdict, Committed) for verdict in verdicts)
        other = await world.worker("i2")
        assert (await world.claim(other)).runs == []
        world.clock.advance(10)
        assert {run.id for run in (await world.claim(other)).runs} == {f"r{number}" for number in range(others + 1)}

    async def test_every_claim_raises_the_epoch(self, world: World) -> None:
        """Contract: + 1 at each claim, also by the same instance, and never lowered by giving back."""
        worker = await world.worker("i1")
        await world.make("r")
        for epoch in (1, 2, 3):
            (row,) = (await world.claim(worker)).runs
            assert row.epoch == epoch
            assert await world.store.release(row.no, epoch=epoch, until=world.clock.now(), inbox_seen=0)
            assert (await world.get("r")).epoch == epoch

    @shows("openworkflow.O14")
    async def test_claims_that_lead_nowhere_are_counted(self, world: World) -> None:
        """Contract: a claim whose holder dies counts; a run past `max_claims` is still taken, with its count."""
        await world.make("r")
        for count in range(1, 8):
            worker = await world.worker(f"i{count}")
            world.store.heart(worker.instance, TTL).beat()
            claims = await world.claim(worker)
            assert [run.claims for run in claims.runs] == [count]
            world.clock.advance(TTL * 2)

    async def test_a_claim_says_when_the_next_run_comes_due(self, world: World) -> None:
        """Contract: the earliest time of the runs of these queues that wait for one; None if none does."""
        worker = await world.worker("i1")
        now = world.clock.now()
        assert (await world.claim(worker)).next_due is None
        await world.make("now")
        await world.make("later", available_at=now + seconds(60))
        await world.make("soon", available_at=now + seconds(30))
        await world.make("elsewhere", available_at=now + seconds(5), queue="other")
        await (await world.held_run("parked")).parks(now + seconds(45))
        await (await world.held_run("waiting")).parks()
        paused = await world.held_run("paused")
        await paused.commits(e.Paused(reason="operator"), park=Park(now + seconds(1)))
        claims = await world.claim(worker)
        assert [run.id for run in claims.runs] == ["now"]
        assert claims.next_due == now + seconds(30)
        world.clock.advance(30)
        claims = await world.claim(worker)
        assert [run.id for run in claims.runs] == ["soon"]
        assert claims.next_due == now + seconds(45)

    async def test_work_left_by_the_limit_is_due_at_once(self, world: World) -> None:
        """Contract: a run that was due and not taken comes next: its time has come already."""
        worker = await world.worker("i1")
        for name in "abc":
            await world.make(name)
        claims = await world.claim(worker, limit=2)
        assert claims.next_due is not None
        assert claims.next_due <= world.clock.now()

    # -- definitions ---------------------------------------------------------------------------------------------------

    async def test_a_run_is_left_for_a_live_worker_that_holds_its_definition(self, world: World) -> None:
        """Contract: a worker without the definition neither claims nor changes the run."""
        stranger = await world.worker("i1", definitions=(("parcel", ""),))
        owner = await world.worker("i2", definitions=(("order", ""),))
        await world.make("r")
        before = await world.get("r")
        assert (await world.claim(stranger)).runs == []
        assert await world.get("r") == before
        assert await world.claimed_ids(owner) == ["r"]

    @shows("openworkflow.O97")
    async def test_a_version_is_part_of_a_definition(self, world: World) -> None:
        """Contract: a worker advances runs of the versions it holds, and only those wait for it."""
        for name, version in (("new", "2"), ("old", "1"), ("plain", ""), ("lost", "3")):
            await world.make(name, version=version)
        first = await world.worker("i1", definitions=(("order", "1"),))
        await world.worker("i2", definitions=(("order", "2"), ("order", "")))
        assert await world.claimed_ids(first) == ["old"]
        bounces = {name: (await world.get(name)).bounces for name in ("new", "plain", "lost")}
        assert bounces == {"new": 0, "plain": 0, "lost": 1}

    async def test_a_run_that_nobody_can_advance_is_put_off_and_never_failed(self, world: World) -> None:
        """Contract: it is delayed by 5 s, doubling up to 5 min, without end, with a note naming what is missing; epoch
        and claims stay."""
        worker = await world.worker("i1", definitions=(("parcel", ""),))
        heart = world.store.heart("i1", TTL)
        row = await world.make("r", version="2")
        waits: list[float] = []
        for count in range(1, 10):
            claims = await world.claim(worker)
            row = await world.get("r")
            assert (claims.runs, claims.put_off) == ([], (("r", row.note),))
            assert row.available_at is not None
            assert row.bounces == count
            assert "order" in row.note
            wait = row.available_at - world.clock.now()
            waits.append(wait.total_seconds())
            world.clock.advance(wait - seconds(0.001))
            heart.beat()
            assert (await world.claim(worker)).runs == []
            assert (await world.get("r")).bounces == count
            world.clock.advance(0.001)
        assert waits == [5, 10, 20, 40, 80, 160, 300, 300, 300]
        assert (row.status, row.epoch, row.claims, row.next_ordinal) == (Status.PENDING, 0, 0, 2)

    async def test_a_dead_worker_holds_no_definition(self, world: World) -> None:
        """Contract: only live workers count; the lease decides."""
        await world.worker("i1")
        await world.make("r")
        world.clock.advance(TTL * 2)
        stranger = await world.worker("i2", definitions=())
        await world.claim(stranger)
        assert (await world.get("r")).bounces == 1

    @pytest.mark.parametrize("ends", ["ended", "taken over"])
    async def test_an_ended_instance_holds_no_definition(self, world: World, ends: str) -> None:
        """Contract: an instance that was ended does not wait for its lease to run out."""
        await world.worker("i1", "w")
        await world.make("r")
        if ends == "ended":
            await world.store.release_all("i1")
            stranger = await world.worker("i2", definitions=())
        else:
            stranger = await world.worker("i2", "w", definitions=(), takes_over="all")
        await world.claim(stranger)
        assert (await world.get("r")).bounces == 1

    async def test_runs_that_cannot_be_advanced_do_not_hide_those_that_can(self, world: World) -> None:
        """Contract: a run of another worker's definition does not count against the limit."""
        for count in range(5):
            await world.make(f"foreign{count}", "unknown", priority=9)
        await world.make("r")
        worker = await world.worker("i1")
        assert await world.claimed_ids(worker, limit=1) == ["r"]

    async def test_waiting_for_other_workers_is_no_reason_to_hurry(self, world: World) -> None:
        """Contract: runs left for another worker do not make this one's next claim due now."""
        await world.worker("i1", definitions=(("order", ""),))
        await world.make("r")
        stranger = await world.worker("i2", definitions=(("parcel", ""),))
        claims = await world.claim(stranger)
        assert claims.next_due is None or claims.next_due > world.clock.now()

    async def test_a_worker_that_brings_the_definition_gets_put_off_runs_at_once(self, world: World) -> None:
        """Contract: registering makes runs available that were put off for want of a definition the worker holds."""
        await world.make("r", workflow="later")
        other = await world.worker("other", definitions=(("order", ""),))
        assert await world.claimed_ids(other) == []
        assert (await world.get("r")).bounces == 1
        bringer = await world.worker("bringer", definitions=(("later", ""),))
        assert await world.claimed_ids(bringer) == ["r"]

    async def test_what_a_worker_could_not_take_on_is_recalled_too(self, world: World) -> None:
        """Contract: a run released with a note, because its worker lacks something that its definition needs, is
        available as soon as a worker registers with that definition; one released without a note is not affected."""
        until = world.clock.now() + seconds(300)
        for name, note in (("lacking", "it has no component"), ("given", "")):
            holder = await world.held_run(name)
            assert await world.store.release(holder.no, epoch=1, until=until, inbox_seen=0, note=note)
        bringer = await world.worker("bringer")
        assert await world.claimed_ids(bringer) == ["lacking"]
        row = await world.get("lacking")
        assert (row.bounces, row.note) == (0, "")

    async def test_an_instance_that_ends_puts_nothing_off(self, world: World) -> None:
        """Contract: a run that was put off, and whose owner was reinstated since, keeps its note when that owner
        releases everything; it is not put off again."""
        holder = await world.held_run("r")
        assert await world.store.release(holder.no, epoch=1, until=None, inbox_seen=0, note="later")
        assert await world.store.reinstate("r", instance="i1", epoch=1)
        assert await world.store.release_all("i1") == 1
        row = await world.get("r")
        assert (row.instance, row.available_at, row.bounces, row.note) == ("", world.clock.now(), 1, "later")
