"""Queues, continued: the reported contents of a queue."""

from __future__ import annotations

from holdfast.ports.condition import Diagnosable
from holdfast.ports.queues import QUEUES, QueueLoad, ShareLoad
from holdfast.testing.conformance.queues import end, mail_worker, make, rules
from holdfast.testing.conformance.suite import Suite
from holdfast.testing.conformance.world import World, seconds


class QueueLoadSuite(Suite):
    """The contents that a store reports for a queue."""

    async def test_a_queue_without_runs_is_empty(self, world: World) -> None:
        """Contract: also one that nothing was written of."""
        assert await world.store.queue_load("mail") == QueueLoad()
        await rules(world, at_once=2)
        assert await world.store.queue_load("mail") == QueueLoad()

    async def test_it_counts_what_waits_and_what_has_a_place(self, world: World) -> None:
        """Contract: runs that wait at the gate with the one that waits longest, runs that have a place, the parked of
        them, and the shares that wait with most runs."""
        await rules(world, at_once=2)
        worker = await mail_worker(world)
        first_at = world.clock.now()
        for run, share in (("a0", "a"), ("b0", "b"), ("a1", "a"), ("c0", "c"), ("a2", "a")):
            await make(world, run, share=share)
            world.clock.advance(1)
        await make(world, "later", share="d", available_at=world.clock.now() + seconds(60))
        a, _ = (await world.claim(worker)).runs
        await (await world.reader(a)).parks()
        load = await world.store.queue_load("mail", shares=2)
        assert load == QueueLoad(
            waiting=3,
            oldest="a1",
            since=first_at + seconds(2),
            begun=2,
            parked=1,
            shares=(ShareLoad("a", 2, 1), ShareLoad("c", 1, 0)),
            share_count=2,
        )
        await end(world, "b0")
        assert (await world.store.queue_load("mail")).begun == 1

    async def test_it_says_when_the_rate_lets_in_the_next(self, world: World) -> None:
        """Contract: None as long as the rate lets one in."""
        await rules(world, interval=3_000_000)
        worker = await mail_worker(world)
        await make(world, "r1")
        assert (await world.store.queue_load("mail")).next_at is None
        await world.claim(worker)
        assert (await world.store.queue_load("mail")).next_at == world.clock.now() + seconds(3)

    async def test_listeners_hear_of_new_rules(self, world: World) -> None:
        """Contract: a worker that sleeps until a queue opens is told."""
        heard: list[str] = []
        unsubscribe = world.store.subscribe(heard.append)
        await rules(world, at_once=2)
        unsubscribe()
        assert QUEUES in heard

    async def test_a_heartbeat_is_not_quiet_while_runs_wait_at_a_gate(self, world: World) -> None:
        """Contract: `quiet_until` is now."""
        await rules(world, is_paused=True)
        await mail_worker(world)
        await make(world, "r1")
        heart = world.store.heart("i1", seconds(15))
        try:
            assert heart.beat().quiet_until == world.clock.now()
        finally:
            heart.close()

    async def test_the_backlog_has_what_waits_at_a_gate(self, world: World) -> None:
        """Contract: such a run waits like any other."""
        await rules(world, at_once=1)
        await make(world, "r1")
        assert isinstance(world.store, Diagnosable)
        (one,) = await world.store.backlog()
        assert (one.queue, one.count, one.oldest) == ("mail", 1, "r1")
