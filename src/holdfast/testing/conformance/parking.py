"""Journal, continued: releasing the lease with a turn, and ending a run."""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256

import pytest

from holdfast.core.status import Status
from holdfast.errors import BlobNotFound
from holdfast.ports.journal import Committed, Park, Unread
from holdfast.testing.conformance.suite import Suite, shows
from holdfast.testing.conformance.world import BOOM, DONE, ENDS, START, TTL, World, seconds, signal

BLOB = b"a large result" * 100
BLOB_NAME = sha256(BLOB).hexdigest()


class ParkingSuite(Suite):
    """Journal, continued: releasing the lease with a turn, and ending a run."""

    async def test_parking_gives_the_lease_back(self, world: World) -> None:
        """Contract: a parked run is not held, keeps its epoch, and is claimed again at `until`, not before."""
        holder = await world.held_run("r")
        await holder.parks(world.clock.now() + seconds(60))
        row = await world.get("r")
        assert (row.instance, row.epoch, row.available_at) == ("", 1, world.clock.now() + seconds(60))
        assert await world.store.held("i1") == {}
        assert await world.claimed_ids(world.workers["i1"]) == []
        world.clock.advance(60)
        assert await world.claimed_ids(world.workers["i1"]) == ["r"]

    async def test_a_run_parked_without_a_time_waits_for_a_message(self, world: World) -> None:
        """Contract: with `until` None, time never wakes the run."""
        holder = await world.held_run("r")
        await holder.parks()
        world.clock.advance(10**8)
        worker = await world.worker("i2")
        assert await world.claimed_ids(worker) == []
        await world.store.send(signal("r", "m1"))
        assert await world.claimed_ids(worker) == ["r"]

    @shows("openworkflow.O51", "openworkflow.O118", "traps.B2")
    @pytest.mark.parametrize("until", [None, START + seconds(3600)])
    async def test_a_message_before_parking_keeps_the_run_awake(self, world: World, until: datetime | None) -> None:
        """Contract: parking with unread messages makes the run available now: the wake-up is not lost."""
        holder = await world.held_run("r")
        await world.store.send(signal("r", "m1"))
        await holder.parks(until, inbox_seen=0)
        assert (await world.get("r")).available_at == world.clock.now()
        assert await world.claimed_ids(world.workers["i1"]) == ["r"]

    async def test_a_message_that_was_seen_does_not_keep_the_run_awake(self, world: World) -> None:
        """Contract: parking compares with what the turn has seen."""
        holder = await world.held_run("r")
        await world.store.send(signal("r", "m1"))
        (message,) = await world.unread("r")
        await holder.parks(world.clock.now() + seconds(60), inbox_seen=message.no)
        assert (await world.get("r")).available_at == world.clock.now() + seconds(60)

    async def test_a_message_after_parking_wakes_the_run(self, world: World) -> None:
        """Contract: the sender lowers the time of a parked run."""
        holder = await world.held_run("r")
        await holder.parks(world.clock.now() + seconds(3600))
        world.clock.advance(5)
        await world.store.send(signal("r", "m1"))
        assert (await world.get("r")).available_at == world.clock.now()
        assert await world.claimed_ids(world.workers["i1"]) == ["r"]

    async def test_a_run_does_not_end_with_messages_unread(self, world: World) -> None:
        """Contract: a terminal turn that has not seen all messages is Unread, and nothing is written."""
        holder = await world.held_run("r")
        await world.store.send(signal("r", "m1"))
        (message,) = await world.unread("r")
        before = await world.dump()
        assert await holder.commit(DONE, blobs={BLOB_NAME: BLOB}) == Unread(message.no)
        assert await world.dump() == before
        with pytest.raises(BlobNotFound):
            await world.store.get_blob(BLOB_NAME)
        await holder.commits(DONE, inbox_seen=message.no, is_consuming=True)

    async def test_an_unread_turn_does_not_disturb_its_batch(self, world: World) -> None:
        """Contract: each commit has its own verdict."""
        holders = [await world.held_run(name) for name in "abc"]
        await world.store.send(signal("b", "m1"))
        verdicts = await world.store.commit([holder.turn(BOOM) for holder in holders])
        assert [type(verdict) for verdict in verdicts] == [Committed, Unread, Committed]
        assert [(await world.get(name)).status.is_terminal for name in "abc"] == [True, False, True]

    @pytest.mark.parametrize("name", list(ENDS))
    @pytest.mark.parametrize("parks", [True, False])
    async def test_an_ended_run_is_never_available_again(self, world: World, name: str, parks: bool) -> None:
        """Contract: a terminal turn leaves no lease, no `available_at` and no watch behind."""
        holder = await world.held_run("r")
        await holder.commits(watch=(("news", "k1"), ("weather", "k2")))
        end = next(end for each, end in ENDS.items() if each == name)
        await holder.commits(end, park=Park(world.clock.now()) if parks else None)
        row = await world.get("r")
        assert (row.status, row.available_at, row.instance) == (Status(name), None, "")
        assert await world.store.held("i1") == {}
        assert [*await world.store.watchers("news"), *await world.store.watchers("weather")] == []
        world.clock.advance(TTL * 2)
        late = await world.worker("i2")
        assert world.store.heart("i2", TTL).beat().orphaned == 0
        assert (await world.claim(late)).runs == []
