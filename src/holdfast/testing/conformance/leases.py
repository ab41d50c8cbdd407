"""Leases: one heartbeat keeps all runs of an instance; expiry, takeover and release free them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest

from holdfast.core import events as e
from holdfast.core.status import Status
from holdfast.ports.journal import Fenced, Park
from holdfast.ports.leases import Held, HeldBy, Over, Taken, TakeOver
from holdfast.testing.conformance.suite import Suite, shows
from holdfast.testing.conformance.world import ENDS, TTL, World, seconds, signal


@cache
def finished_pid() -> int:
    """The pid of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


class LeasesSuite(Suite):
    """Leases: one heartbeat keeps all runs of an instance; expiry, takeover and release free them."""

    # -- heartbeats ----------------------------------------------------------------------------------------------------

    @shows("stepflow.L9")
    async def test_a_heartbeat_keeps_all_runs(self, world: World) -> None:
        """Contract: one beat renews the instance and with it everything it holds, as long as it beats."""
        for count in range(3):
            await world.held_run(f"r{count}")
        heart, other = world.store.heart("i1", TTL), await world.worker("i2")
        watching = world.store.heart("i2", TTL)
        for _ in range(10):
            world.clock.advance(TTL * 0.9)
            beat = heart.beat()
            assert (beat.has_lapsed, beat.now) == (False, world.clock.now())
            assert watching.beat().orphaned == 0
            assert (await world.claim(other)).runs == []
        assert set(await world.store.held("i1")) == {"r0", "r1", "r2"}

    async def test_a_heartbeat_is_called_from_a_thread_of_its_own(self, world: World) -> None:
        """Contract: `beat` blocks only its own thread; several may beat at once."""
        for count in range(3):
            await world.worker(f"i{count}")
        world.clock.advance(TTL * 0.9)
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(3) as pool:
            hearts = [world.store.heart(f"i{count}", TTL) for count in range(3)]
            beats = await asyncio.gather(*(loop.run_in_executor(pool, heart.beat, "busy") for heart in hearts))
            await asyncio.gather(*(loop.run_in_executor(pool, heart.close) for heart in hearts))
        assert not any(beat.has_lapsed for beat in beats)
        world.clock.advance(TTL * 0.9)
        assert all(worker.is_live for worker in await world.store.workers())

    async def test_runs_of_a_silent_instance_are_freed_by_the_beat_of_another(self, world: World) -> None:
        """Contract: after expiry: available now, lease cleared, epoch kept; the next claim fences the old holder."""
        holder = await world.held_run("r")
        await holder.commits()
        other = await world.worker("i2")
        heart = world.store.heart("i2", TTL)
        world.clock.advance(TTL * 0.9)
        assert heart.beat().orphaned == 0
        world.clock.advance(TTL * 0.2)
        assert heart.beat().orphaned == 1
        row = await world.get("r")
        assert (row.instance, row.epoch, row.available_at) == ("", 1, world.clock.now())
        assert await world.store.held("i1") == {}
        (row,) = (await world.claim(other)).runs
        assert row.epoch == 2
        assert isinstance(await holder.commit(), Fenced)
        assert heart.beat().orphaned == 0

    async def test_a_beat_frees_a_bounded_number_of_runs(self, world: World) -> None:
        """Contract: 100 a beat; the rest follow with the next."""
        for count in range(230):
            await world.make(f"r{count}")
        gone = await world.worker("i1")
        assert len((await world.claim(gone, limit=230)).runs) == 230
        world.clock.advance(TTL * 2)
        await world.worker("i2")
        heart = world.store.heart("i2", TTL)
        assert [heart.beat().orphaned for _ in range(4)] == [100, 100, 30, 0]
        assert len(await world.store.held("i1")) == 0

    async def test_a_beat_says_when_the_next_lease_runs_out(self, world: World) -> None:
        """Contract: the first of all other instances that hold runs; one that holds nothing does not count."""
        await world.worker("watching")
        heart = world.store.heart("watching", TTL)
        assert heart.beat().next_expiry is None
        await world.held_run("a", instance="i1")
        first = world.clock.now() + TTL
        world.clock.advance(seconds(3))
        await world.held_run("b", instance="i2")
        await world.worker("idle")
        await world.held_run("own", instance="watching")
        world.clock.advance(seconds(2))
        assert heart.beat().next_expiry == heart.beat(frees=0).next_expiry == first
        world.store.heart("i1", TTL).beat()
        assert heart.beat().next_expiry == first + seconds(3)

    async def test_a_lease_that_has_run_out_is_said_to_run_out_now(self, world: World) -> None:
        """Contract: as long as a dead worker holds runs, whatever they are; then the next of the living."""
        for count in range(3):
            await world.held_run(f"r{count}", instance="i1")
        ended = await world.held_run("e", instance="i2")
        world.clock.advance(TTL * 0.9)
        await world.held_run("live", instance="i3")
        world.clock.advance(TTL * 0.2)
        now = world.clock.now()
        heart = world.store.heart("i3", TTL)
        assert [heart.beat(frees=frees).next_expiry for frees in (0, 3, 1, 1)] == [now, now, None, None]
        assert (await world.get(ended.id)).instance == ""
        assert world.store.heart("i4", TTL).beat().next_expiry == now + TTL

    async def test_a_late_heartbeat_says_that_the_lease_had_lapsed(self, world: World) -> None:
        """Contract: `has_lapsed` once; the runs that were not taken are still held."""
        await world.held_run("r")
        heart = world.store.heart("i1", TTL)
        world.clock.advance(TTL * 2)
        assert heart.beat().has_lapsed
        assert not heart.beat().has_lapsed
        assert set(await world.store.held("i1")) == {"r"}

    async def test_a_late_heartbeat_does_not_bring_runs_back(self, world: World) -> None:
        """Contract: what was taken over is missing from `held`."""
        await world.held_run("a")
        await world.held_run("b")
        other = await world.worker("i2")
        world.clock.advance(TTL * 2)
        world.store.heart("i2", TTL).beat()
        assert len((await world.claim(other, limit=1)).runs) == 1
        assert world.store.heart("i1", TTL).beat().has_lapsed
        assert await world.store.held("i1") == {}

    async def test_leases_do_not_follow_the_wall_clock(self, world: World) -> None:
        """Contract: setting the wall clock neither ends nor prolongs a lease."""
        await world.held_run("r")
        await world.worker("i2")
        heart = world.store.heart("i2", TTL)
        world.clock.set(world.clock.now() + seconds(10**6))
        assert heart.beat().orphaned == 0
        world.clock.set(world.clock.now() - seconds(2 * 10**6))
        world.clock.advance(TTL * 2)
        assert heart.beat().orphaned == 1

    async def test_a_reboot_voids_all_leases(self, world: World) -> None:
        """Contract: seconds of another boot mean nothing, however few or many they are."""
        world.clock.advance(10**6)
        await world.held_run("r")
        world.clock.reboot()
        assert [worker.is_live for worker in await world.store.workers()] == [False]
        worker = await world.worker("i2")
        assert world.store.heart("i2", TTL).beat().orphaned == 1
        assert await world.claimed_ids(worker) == ["r"]
        assert world.store.heart("i1", TTL).beat().has_lapsed

    async def test_the_beat_of_an_unknown_instance_has_lapsed(self, world: World) -> None:
        """Contract: an instance that was never registered, or was forgotten, holds nothing."""
        assert world.store.heart("nobody", TTL).beat().has_lapsed

    async def test_a_run_held_by_nobody_known_is_freed(self, world: World) -> None:
        """Contract: a run taken by an operator that disappeared is not stuck: no live instance holds it."""
        await world.make("r")
        assert isinstance(await world.store.take("r", instance="operator"), Taken)
        worker = await world.worker("i1")
        world.store.heart("i1", TTL).beat()
        assert await world.claimed_ids(worker) == ["r"]

    # -- instances -----------------------------------------------------------------------------------------------------

    async def test_workers_are_listed_live_ones_first(self, world: World) -> None:
        """Contract: every known instance with how many runs it holds, what it can advance, and whether it lives."""
        await world.worker("i1", queues=("slow",), definitions=(("parcel", "3"),), pid=0, host="there")
        world.clock.advance(TTL * 2)
        await world.held_run("a", instance="i2")
        await world.held_run("b", instance="i2")
        world.store.heart("i2", TTL).beat("12 of 30")
        live, gone = await world.store.workers()
        assert (live.instance, live.worker, live.is_live, live.active, live.progress) == (
            "i2",
            "w2",
            True,
            2,
            "12 of 30",
        )
        assert (gone.instance, gone.worker, gone.is_live, gone.active) == ("i1", "w1", False, 0)
        assert (gone.queues, gone.definitions, gone.host) == (("slow",), (("parcel", "3"),), "there")
        assert gone.started_at == world.workers["i1"].started_at

    async def test_a_restarted_worker_takes_its_runs_back(self, world: World) -> None:
        """Contract: taking over from all ends the earlier instances of the id and frees their runs only."""
        await world.worker("i1", "w")
        await world.worker("i2", "w")
        places = (("a", "i1"), ("b", "i1"), ("c", "i2"))
        holders = [await world.held_run(name, instance=instance) for name, instance in places]
        for holder in holders:
            await holder.commits()
        await world.held_run("other", instance="i3")
        again = world.workers["i1"]
        fresh = type(again)(
            instance="i4",
            worker="w",
            queues=again.queues,
            definitions=again.definitions,
            pid=0,
            host="here",
            started_at=world.clock.now(),
        )
        assert sorted(await world.store.register(fresh, TTL, takes_over="all")) == ["a", "b", "c"]
        assert {row.id: row.epoch for row in (await world.claim(fresh)).runs} == {"a": 2, "b": 2, "c": 2}
        assert isinstance(await holders[0].commit(), Fenced)
        assert set(await world.store.held("i3")) == {"other"}
        assert world.store.heart("i1", TTL).beat().has_lapsed

    async def test_two_live_instances_of_one_id_are_both_shown(self, world: World) -> None:
        """Contract: an earlier instance whose process lives keeps its runs until expiry, unless all are taken over."""
        await world.worker("i1", "w")
        holder = await world.held_run("r")
        second = await world.worker("i2", "w")
        assert [worker.instance for worker in await world.store.workers() if worker.is_live] == ["i1", "i2"]
        assert (await world.claim(second)).runs == []
        await holder.commits()
        assert set(await world.store.held("i1")) == {"r"}

    @pytest.mark.parametrize(
        ("worker", "host", "is_rebooted", "takes_over", "freed"),
        [
            ("w", "here", False, "gone", 1),
            ("w", "there", False, "gone", 0),
            ("v", "here", False, "gone", 0),
            ("w", "here", True, "gone", 0),
            ("w", "here", False, "none", 0),
        ],
        ids=["its own", "another host", "another id", "another boot", "not asked for"],
    )
    async def test_the_runs_of_a_process_that_is_gone_are_freed_at_registration(
        self, world: World, worker: str, host: str, is_rebooted: bool, takes_over: TakeOver, freed: int
    ) -> None:
        """Contract: same worker id, same host, same boot, process gone: no need to wait for the lease, unless the
        registering worker wants to."""
        await world.worker("i1", "w", pid=finished_pid())
        await world.held_run("r")
        if is_rebooted:
            world.clock.reboot()
        row = world.workers["i1"]
        fresh = type(row)(
            instance="i2",
            worker=worker,
            queues=row.queues,
            definitions=row.definitions,
            pid=0,
            host=host,
            started_at=world.clock.now(),
        )
        assert await world.store.register(fresh, TTL, takes_over=takes_over) == ["r"] * freed
        assert (await world.store.held("i1") == {}) == bool(freed)

    # -- giving back ---------------------------------------------------------------------------------------------------

    async def test_a_released_run_is_available_when_it_was_asked_to_be(self, world: World) -> None:
        """Contract: lease cleared, epoch kept, no turn written, `until` and the note as given."""
        holder = await world.held_run("r")
        until = world.clock.now() + seconds(60)
        assert await world.store.release(holder.no, epoch=1, until=until, inbox_seen=0, note="cannot read format 2")
        row = await world.get("r")
        assert (row.instance, row.epoch, row.available_at, row.next_ordinal) == ("", 1, until, 2)
        assert row.note == "cannot read format 2"
        assert (await world.claim(world.workers["i1"])).runs == []
        world.clock.advance(60)
        assert await world.claimed_ids(world.workers["i1"]) == ["r"]

    @pytest.mark.parametrize("is_seen", [True, False])
    async def test_a_run_released_with_unread_messages_is_available_now(self, world: World, is_seen: bool) -> None:
        """Contract: the same comparison as parking: no wake-up is lost."""
        holder = await world.held_run("r")
        await world.store.send(signal("r", "m1"))
        (message,) = await world.unread("r")
        world.clock.advance(1)
        assert await world.store.release(holder.no, epoch=1, until=None, inbox_seen=message.no if is_seen else 0)
        assert (await world.get("r")).available_at == (None if is_seen else world.clock.now())

    @shows("traps.B1", "traps.A7")
    async def test_a_stale_release_leaves_no_trace(self, world: World) -> None:
        """Contract: False if the epoch has moved on, or the run is not there."""
        holder = await world.held_run("r")
        await world.store.take("r", instance="i1", steal=True)
        before = await world.dump()
        assert not await world.store.release(holder.no, epoch=1, until=None, inbox_seen=0, note="late")
        assert not await world.store.release(holder.no, epoch=3, until=None, inbox_seen=0, note="early")
        assert not await world.store.release(999, epoch=1, until=None, inbox_seen=0)
        assert await world.dump() == before

    async def test_a_release_that_comes_after_the_end_makes_nothing_due(self, world: World) -> None:
        """Contract: an ended run is never available again."""
        row = await world.ended_run("r")
        await world.store.release(row.no, epoch=row.epoch, until=world.clock.now(), inbox_seen=0)
        assert await world.get("r") == row

    async def test_giving_a_run_back_does_not_count_as_a_claim(self, world: World) -> None:
        """Contract: a claim that ended with a release does not suggest that the run kills its worker."""
        worker = await world.worker("i1")
        await world.make("r")
        for _ in range(3):
            (row,) = (await world.claim(worker)).runs
            assert row.claims == 1
            await world.store.release(row.no, epoch=row.epoch, until=world.clock.now(), inbox_seen=0)
        (row,) = (await world.claim(worker)).runs
        await world.store.release_all("i1")
        assert (await world.get("r")).claims == 0

    async def test_release_all_gives_back_everything_of_one_instance(self, world: World) -> None:
        """Contract: its runs are available now and it is ended; other workers' runs do not change."""
        for name in "ab":
            await world.held_run(name)
        await world.held_run("other", instance="i2")
        kept = await world.get("other")
        world.clock.advance(1)
        assert await world.store.release_all("i1") == 2
        for name in "ab":
            row = await world.get(name)
            assert (row.instance, row.epoch, row.available_at) == ("", 1, world.clock.now())
        assert await world.get("other") == kept
        assert await world.store.held("i1") == {}
        assert [worker.instance for worker in await world.store.workers() if worker.is_live] == ["i2"]
        assert await world.store.release_all("i1") == 0
        assert await world.store.release_all("nobody") == 0

    async def test_held_names_the_runs_of_one_instance(self, world: World) -> None:
        """Contract: run id → epoch and `inbox_last`, for what the instance holds now."""
        await world.held_run("a")
        parked = await world.held_run("b")
        await parked.parks()
        await world.held_run("c", instance="i2")
        assert await world.store.held("i1") == {"a": Held(1, 0)}
        assert await world.store.held("nobody") == {}

    # -- operators -----------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("state", ["due", "delayed", "parked", "paused"])
    async def test_an_operator_takes_a_run_that_nobody_holds(self, world: World, state: str) -> None:
        """Contract: whatever its status: epoch + 1, claims not counted, and the operator can commit."""
        later = world.clock.now() + seconds(60)
        match state:
            case "due":
                await world.make("r")
            case "delayed":
                await world.make("r", available_at=later)
            case "parked":
                await (await world.held_run("r")).parks(later)
            case _:
                await (await world.held_run("r")).commits(e.Paused(reason="operator"), park=Park(None))
        before = await world.get("r")
        taken = await world.store.take("r", instance="operator")
        assert isinstance(taken, Taken)
        assert taken.run == await world.get("r")
        assert (taken.run.epoch, taken.run.claims, taken.run.instance) == (before.epoch + 1, before.claims, "operator")
        holder = await world.reader(taken.run)
        await holder.commits(e.Cancelled(imposed=True))
        assert (await world.get("r")).status is Status.CANCELLED

    async def test_a_live_holder_keeps_its_run_unless_it_is_stolen(self, world: World) -> None:
        """Contract: HeldBy names the holder and changes nothing; `steal` fences it."""
        holder = await world.held_run("r")
        before = await world.dump()
        assert await world.store.take("r", instance="operator") == HeldBy("w1", "i1", world.clock.now() + TTL)
        assert await world.dump() == before
        taken = await world.store.take("r", instance="operator", steal=True)
        assert isinstance(taken, Taken)
        assert taken.run.epoch == 2
        assert isinstance(await holder.commit(), Fenced)
        assert await world.store.held("i1") == {}

    async def test_a_dead_holder_keeps_nothing(self, world: World) -> None:
        """Contract: a lease that ran out protects no run, freed or not."""
        holder = await world.held_run("r")
        world.clock.advance(TTL * 2)
        assert isinstance(await world.store.take("r", instance="operator"), Taken)
        assert isinstance(await holder.commit(), Fenced)

    @pytest.mark.parametrize("name", list(ENDS))
    @pytest.mark.parametrize("steal", [True, False])
    async def test_an_ended_run_cannot_be_taken(self, world: World, name: str, steal: bool) -> None:
        """Contract: Over with its status; None for a run that is not there."""
        end = next(end for each, end in ENDS.items() if each == name)
        await world.ended_run("r", end)
        before = await world.dump()
        assert await world.store.take("r", instance="operator", steal=steal) == Over(Status(name))
        assert await world.store.take("nobody", instance="operator", steal=steal) is None
        assert await world.dump() == before
