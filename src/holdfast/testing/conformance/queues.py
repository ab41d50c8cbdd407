"""Queues: which waiting runs begin, how many, and in which order."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from holdfast.core import events as e
from holdfast.core.gate import Gate
from holdfast.core.turn import micros
from holdfast.ports.inbox import message as compose
from holdfast.ports.leases import Taken, WorkerRow
from holdfast.ports.queues import QueueChange
from holdfast.ports.runs import Made
from holdfast.testing.conformance.suite import Suite
from holdfast.testing.conformance.world import DONE, TTL, World, request, seconds, signal
from holdfast.upkeep.imposition import impose

SECOND = 1_000_000


async def rules(world: World, name: str = "mail", **gate: Any) -> None:
    """Gives a queue these rules."""
    known = await world.store.queue(name)
    change = QueueChange(name=name, revision=known.revision if known else 0, body=b"rules", gate=Gate(**gate))
    assert await world.store.change_queue(change)


async def make(world: World, run: str, **facts: Any) -> None:
    await world.make(run, queue=facts.pop("queue", "mail"), **facts)


async def mail_worker(world: World, instance: str = "i1", **facts: Any) -> WorkerRow:
    return await world.worker(instance, queues=facts.pop("queues", ("mail", "default")), **facts)


async def end(world: World, run: str, instance: str = "i1") -> None:
    """The run, which the instance holds, ends."""
    row = await world.get(run)
    assert row.instance == instance
    await (await world.reader(row)).commits(DONE)


class QueuesSuite(Suite):
    """What a store owes to queues with rules."""

    async def test_at_once_counts_all_workers(self, world: World) -> None:
        """Contract: no more runs of the queue have a place than its rules say, over all workers; an end frees one."""
        await rules(world, at_once=3)
        one, other = await mail_worker(world), await mail_worker(world, "i2")
        for number in range(6):
            await make(world, f"r{number}")
            world.clock.advance(1)
        assert await world.claimed_ids(one, limit=2) == ["r0", "r1"]
        claims = await world.claim(other)
        assert [run.id for run in claims.runs] == ["r2"]
        assert claims.is_held_back
        assert await world.claimed_ids(one) == []
        await end(world, "r1")
        assert await world.claimed_ids(other) == ["r3"]

    async def test_a_parked_run_keeps_its_place(self, world: World) -> None:
        """Contract: runs that only wait count, unless the queue frees them; they come back without passing the gate."""
        await rules(world, at_once=1)
        worker = await mail_worker(world)
        await make(world, "r1")
        await make(world, "r2")
        (row,) = (await world.claim(worker)).runs
        await (await world.reader(row)).parks(world.clock.now() + seconds(60))
        assert await world.claimed_ids(worker) == []
        await rules(world, at_once=1, frees_parked=True)
        assert await world.claimed_ids(worker) == ["r2"]
        world.clock.advance(61)
        assert await world.claimed_ids(worker) == ["r1"]

    async def test_a_run_that_has_begun_never_waits_again(self, world: World) -> None:
        """Contract: woken, freed from a dead worker or resumed, it is claimed whatever the gate says, and still
        counts."""
        await rules(world, at_once=1)
        worker = await mail_worker(world)
        await make(world, "r1")
        await make(world, "r2")
        (row,) = (await world.claim(worker)).runs
        await (await world.reader(row)).parks()
        await rules(world, at_once=1, is_paused=True)
        await world.store.send(signal("r1", "m1"))
        assert await world.claimed_ids(worker) == ["r1"]
        await mail_worker(world, "i3", worker="w1", takes_over="all")
        heir = world.workers["i3"]
        assert await world.claimed_ids(heir) == ["r1"]
        await rules(world, at_once=1)
        assert await world.claimed_ids(heir) == []

    async def test_per_worker_counts_what_one_holds(self, world: World) -> None:
        """Contract: each instance is let in until it holds that many runs of the queue."""
        await rules(world, per_worker=2)
        one, other = await mail_worker(world), await mail_worker(world, "i2")
        for number in range(5):
            await make(world, f"r{number}")
            world.clock.advance(1)
        assert await world.claimed_ids(one) == ["r0", "r1"]
        assert await world.claimed_ids(one) == []
        assert await world.claimed_ids(other) == ["r2", "r3"]
        await end(world, "r0")
        assert await world.claimed_ids(one) == ["r4"]

    async def test_nothing_begins_in_a_paused_queue(self, world: World) -> None:
        """Contract: runs wait, and begin when the queue is resumed; other queues are served meanwhile. A queue without
        rules can be paused too, with what waits in it."""
        worker = await mail_worker(world)
        await make(world, "before")
        await rules(world, is_paused=True)
        await make(world, "after")
        await world.make("elsewhere")
        claims = await world.claim(worker)
        assert [run.id for run in claims.runs] == ["elsewhere"]
        assert claims.is_held_back
        await rules(world)
        assert sorted(await world.claimed_ids(worker)) == ["after", "before"]

    async def test_runs_at_a_gate_are_not_made_already_begun(self, world: World) -> None:
        """Contract: made beside a worker such a run is pending, and its first turn is not taken; without rules it
        begins at once, as ever."""
        await rules(world, at_once=1)
        await mail_worker(world)
        for run, queue in (("gated", "mail"), ("free", "default")):
            made = await world.create(world.new(run, queue=queue), instance="i1", worker="w1")
            assert isinstance(made, Made)
            assert made.run.instance == ("i1" if run == "free" else "")
            assert made.run.epoch == (run == "free")
        shared = await world.create(world.new("shared", share="a"), instance="i1", worker="w1")
        assert isinstance(shared, Made)
        assert not shared.run.instance

    async def test_a_child_rides_on_its_parents_place(self, world: World) -> None:
        """Contract: a child without a queue of its own does not wait at the gate, or its parent might wait for it
        forever; it has no place of its own. One that was given a queue waits there."""
        await rules(world, at_once=1)
        worker = await mail_worker(world)
        await make(world, "parent")
        (row,) = (await world.claim(worker)).runs
        parent = await world.reader(row)
        rider = world.new("rider", "parcel", queue="mail", parent="parent", parent_key="k", root="parent", rides=True)
        other = world.new("other", "parcel", queue="mail", parent="parent", parent_key="o", root="parent")
        await parent.commits(children=(rider, other))
        assert await world.claimed_ids(worker) == ["rider"]
        await parent.commits(DONE)
        assert await world.claimed_ids(worker) == ["other"]

    async def test_a_delayed_run_comes_to_the_gate_when_it_is_due(self, world: World) -> None:
        """Contract: it waits for its time first, then at the gate; the claim says when that is."""
        await rules(world, at_once=1)
        worker = await mail_worker(world)
        later = world.clock.now() + seconds(30)
        await make(world, "later", available_at=later)
        await make(world, "now")
        claims = await world.claim(worker)
        assert ([run.id for run in claims.runs], claims.next_due) == (["now"], later)
        world.clock.advance(31)
        assert await world.claimed_ids(worker) == []
        await end(world, "now")
        assert await world.claimed_ids(worker) == ["later"]

    async def test_a_message_does_not_let_a_run_in(self, world: World) -> None:
        """Contract: a signal leaves the run where it waits; a cancel is delivered at once."""
        await rules(world, at_once=1)
        worker = await mail_worker(world)
        for run in ("first", "second"):
            await make(world, run)
            world.clock.advance(1)
        assert await world.claimed_ids(worker) == ["first"]
        await world.store.send(signal("second", "m1"))
        assert await world.claimed_ids(worker) == []
        cancel = e.CancelRequested(message="c1", reason="over")
        await world.store.send(compose("second", "c1", "cancel", cancel))
        assert await world.claimed_ids(worker) == ["second"]

    async def test_what_is_taken_counts_and_is_not_refused(self, world: World) -> None:
        """Contract: an operator may take a run whatever the gate says; it has a place as long as it is held, and if it
        has begun."""
        await rules(world, at_once=1)
        worker = await mail_worker(world)
        for run in ("first", "second"):
            await make(world, run)
            world.clock.advance(1)
        taken = await world.store.take("second", instance="operator")
        assert isinstance(taken, Taken)
        assert await world.claimed_ids(worker) == []
        assert await world.store.release(taken.run.no, epoch=taken.run.epoch, until=world.clock.now(), inbox_seen=0)
        assert await world.claimed_ids(worker) == ["first"]

    async def test_a_run_taken_by_an_operator_that_died_waits_again(self, world: World) -> None:
        """Contract: who takes a run past the gate and dies has not let it in."""
        await rules(world, at_once=1)
        worker = await mail_worker(world)
        for run in ("first", "second"):
            await make(world, run)
            world.clock.advance(1)
        assert isinstance(await world.store.take("second", instance="operator"), Taken)
        world.store.heart("i1", TTL).beat()
        assert await world.claimed_ids(worker) == ["first"]
        assert await world.claimed_ids(worker) == []
        await end(world, "first")
        assert await world.claimed_ids(worker) == ["second"]

    async def test_a_run_that_is_paused_before_it_began_gives_its_place_back(self, world: World) -> None:
        """Contract: what an operator did to a run that has not begun costs no place; resumed, it waits at the gate."""
        await rules(world, at_once=1)
        worker = await mail_worker(world)
        for run in ("first", "second"):
            await make(world, run)
            world.clock.advance(1)
        assert await impose(world.store, "first", lambda _: [e.Paused(reason="operator")], steal=False)
        assert await world.claimed_ids(worker) == ["second"]
        assert await impose(world.store, "first", lambda _: [e.Resumed()], steal=False)
        assert await world.claimed_ids(worker) == []
        await end(world, "second")
        assert await world.claimed_ids(worker) == ["first"]

    async def test_a_run_that_is_given_back_unbegun_gives_its_place_back(self, world: World) -> None:
        """Contract: a worker that stops before the first turn leaves the run at the gate."""
        await rules(world, at_once=1)
        one = await mail_worker(world)
        await make(world, "r1")
        assert await world.claimed_ids(one) == ["r1"]
        await world.store.release_all("i1")
        other = await mail_worker(world, "i2")
        await rules(world, at_once=1, is_paused=True)
        assert await world.claimed_ids(other) == []
        await rules(world, at_once=1)
        assert await world.claimed_ids(other) == ["r1"]

    async def test_a_rate_is_never_exceeded(self, world: World) -> None:
        """Contract: by the store's clock, in any window no more begin than the rate and its burst allow, for all
        claimers; and not fewer than the rate either."""
        await rules(world, interval=100_000, burst=2)
        workers = [await mail_worker(world), await mail_worker(world, "i2")]
        for number in range(60):
            await make(world, f"r{number:02}")
        times: list[int] = []
        for step in range(400):
            claims = await world.claim(workers[step % 2])
            times += [micros(world.clock.now())] * len(claims.runs)
            world.clock.advance(0.01)
        assert len(times) >= 40
        for width in (SECOND // 10, SECOND, 3 * SECOND):
            for start in times:
                assert sum(start <= time < start + width for time in times) <= width // 100_000 + 2

    async def test_a_claim_says_when_the_rate_lets_in_more(self, world: World) -> None:
        """Contract: so that no worker asks again and again."""
        await rules(world, interval=2 * SECOND)
        worker = await mail_worker(world)
        await make(world, "r1")
        await make(world, "r2")
        assert len((await world.claim(worker)).runs) == 1
        claims = await world.claim(worker)
        assert (claims.runs, claims.next_due) == ([], world.clock.now() + seconds(2))
        world.clock.advance(2)
        assert len((await world.claim(worker)).runs) == 1

    async def test_what_has_begun_when_the_first_rules_come_counts(self, world: World) -> None:
        """Contract: rules hold from the transaction that writes them, for what is there."""
        worker = await mail_worker(world)
        await make(world, "begun")
        assert await world.claimed_ids(worker) == ["begun"]
        await make(world, "waits")
        await rules(world, at_once=1)
        assert await world.claimed_ids(worker) == []
        await end(world, "begun")
        assert await world.claimed_ids(worker) == ["waits"]

    async def test_a_run_of_a_missing_definition_is_put_off_at_the_gate(self, world: World) -> None:
        """Contract: it delays no other run, and comes back to the gate when a worker holds its definition."""
        await rules(world, at_once=1)
        worker = await mail_worker(world)
        await make(world, "stray", workflow="stray", share="a")
        await make(world, "order", share="b")
        claims = await world.claim(worker)
        assert [run.id for run in claims.runs] == ["order"]
        assert [run for run, _ in claims.put_off] == ["stray"]
        other = await mail_worker(world, "i2", definitions=(("stray", ""),))
        assert await world.claimed_ids(other) == []
        await end(world, "order")
        assert await world.claimed_ids(other) == ["stray"]

    async def test_looking_lets_nobody_in(self, world: World) -> None:
        """Contract: `due` gives what the next claim takes, and a claim of `only` these passes the same gate."""
        await rules(world, at_once=2)
        worker = await mail_worker(world)
        for run, share in (("a0", "a"), ("a1", "a"), ("b0", "b")):
            await make(world, run, share=share)
            world.clock.advance(1)
        for _ in range(2):
            assert [run.id for run in (await world.store.due(request(worker))).runs] == ["a0", "b0"]
        taken = (await world.claim(worker, only=["a1", "a0", "b0"])).runs
        assert [run.id for run in taken] == ["a0", "b0"]
        assert (await world.claim(worker, only=["a1"])).runs == []

    async def test_rules_are_fenced_by_revision(self, world: World) -> None:
        """Contract: of two that change the rules at once one wins, and the other knows."""
        first = QueueChange(name="mail", revision=0, body=b"1", gate=Gate(at_once=1))
        assert await world.store.change_queue(first)
        assert not await world.store.change_queue(first)
        second = QueueChange(name="mail", revision=1, body=b"2", gate=Gate(at_once=2, weights={"ä": 0.5}))
        assert sorted(await asyncio.gather(*(world.store.change_queue(second) for _ in range(4)))) == [False] * 3 + [
            True
        ]
        stored = await world.store.queue("mail")
        assert stored is not None
        assert (stored.revision, stored.body, stored.gate) == (2, b"2", second.gate)
        assert list(await world.store.queues()) == [stored]
        assert await world.store.queue("unknown") is None

    async def test_workers_that_claim_together_share_the_places(self, world: World) -> None:
        """Contract: any number of claims at once are let in one after the other."""
        await rules(world, at_once=5, share_at_once=2)
        workers = [await mail_worker(world, f"i{number}") for number in range(6)]
        for number in range(40):
            await make(world, f"r{number:02}", share=f"s{number % 4}")
        taken = [run for each in await asyncio.gather(*map(world.claim, workers)) for run in each.runs]
        assert len(taken) == 5
        assert max(Counter(int(run.id[1:]) % 4 for run in taken).values()) <= 2
