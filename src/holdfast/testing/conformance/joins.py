"""Starts that join a run which has not begun, instead of making one."""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec
import pytest

from holdfast.core import events as e
from holdfast.core.messages import encode_event
from holdfast.ports.runs import Creation, Existing, Joined, Joining, Made, Replaced
from holdfast.testing.conformance.suite import Suite
from holdfast.testing.conformance.world import DONE, World, event_of, seconds, signal

CALLERS = 10


class JoinsSuite(Suite):
    """What a store owes to starts that may join another run."""

    async def test_a_start_joins_the_run_of_its_value(self, world: World) -> None:
        """Contract: its input is a message, the run is put off and is not woken, and no other run is made."""
        made = await _debounce(world, "r1")
        assert isinstance(made, Made)
        world.clock.advance(seconds(20))
        joined = await _debounce(world, "r2")
        assert joined == Joined(await world.get("r1"))
        [given] = await world.unread("r1")
        assert (given.kind, given.id, event_of(given).value) == ("input", "input r2", msgspec.Raw(b'"r2"'))
        assert (await world.get("r1")).available_at == world.clock.now() + seconds(30)
        assert await world.store.get("r2") is None
        worker = await world.worker()
        world.clock.advance(seconds(29))
        assert await world.claimed_ids(worker) == []
        world.clock.advance(seconds(1))
        assert await world.claimed_ids(worker) == ["r1"]

    async def test_it_is_never_put_off_for_longer_than_the_first_allowed(self, world: World) -> None:
        """Contract: `Started.latest` of the run that was made, whatever later starts ask for."""
        first = world.clock.now()
        await _debounce(world, "r0", latest=70)
        for count in range(1, 7):
            world.clock.advance(seconds(10))
            await _debounce(world, f"r{count}", latest=1000)
        assert (await world.get("r0")).available_at == first + seconds(70)

    async def test_an_earlier_time_brings_nothing_forward(self, world: World) -> None:
        await _debounce(world, "r1", wait=60)
        due = (await world.get("r1")).available_at
        await _debounce(world, "r2", wait=10)
        assert (await world.get("r1")).available_at == due

    async def test_a_run_that_is_due_stays_due_and_takes_the_input(self, world: World) -> None:
        await _debounce(world, "r1")
        world.clock.advance(seconds(31))
        due = (await world.get("r1")).available_at
        assert isinstance(await _debounce(world, "r2"), Joined)
        assert (await world.get("r1")).available_at == due

    @pytest.mark.parametrize("is_begun", [False, True], ids=["held", "begun"])
    async def test_a_run_that_is_held_or_has_begun_takes_no_more(self, world: World, is_begun: bool) -> None:
        """Contract: `Existing`, and nothing is written; a run that follows it takes further inputs."""
        await _debounce(world, "r1")
        world.clock.advance(seconds(30))
        holder = await world.holder("r1")
        if is_begun:
            await holder.commits()
        assert await _debounce(world, "r2") == Existing(await world.get("r1"), by="unique")
        assert await world.unread("r1") == []
        met = Replaced(run="r1", is_idle=False)
        assert isinstance(await _debounce(world, "r3", replaces=met, after=("r1",)), Made)
        assert await _debounce(world, "r4") == Joined(await world.get("r3"))
        assert (await world.get("r3")).available_at is None  # it waits for the end of the first
        await holder.commits(DONE)
        assert [message.kind for message in await world.unread("r3")] == ["input", "child"]

    async def test_a_run_given_back_before_it_began_takes_inputs_again(self, world: World) -> None:
        await _debounce(world, "r1")
        await world.store.send(signal("r1", "s1"))
        holder = await world.holder("r1")
        due = world.clock.now() + seconds(30)
        await world.store.release(holder.no, epoch=holder.epoch, until=due, inbox_seen=1)
        assert isinstance(await _debounce(world, "r2"), Joined)

    async def test_a_plain_run_of_the_value_takes_no_input(self, world: World) -> None:
        """Contract: nor does one of another version, or of another value or workflow."""
        await world.make("r1", unique="u")
        assert await _debounce(world, "r2") == Existing(await world.get("r1"), by="unique")
        await _debounce(world, "r3", unique="v")
        assert isinstance(await _debounce(world, "r4", unique="v", version="2"), Existing)
        assert isinstance(await _debounce(world, "r5", unique="w"), Made)
        assert isinstance(await _debounce(world, "r6", "parcel", unique="w"), Made)

    async def test_the_same_message_counts_once(self, world: World) -> None:
        """Contract: a start that is sent again, because its answer was lost, joins once."""
        await _debounce(world, "r1")
        for _ in range(2):
            assert isinstance(await _debounce(world, "r2"), Joined)
        assert len(await world.unread("r1")) == 1

    async def test_the_last_room_makes_it_due(self, world: World) -> None:
        """Contract: with `most` inputs the run is due at once, takes no more, and the next start makes another."""
        await _collect(world, "r1", most=3)
        worker = await world.worker()
        await _collect(world, "r2", most=3)
        assert await world.claimed_ids(worker) == []
        assert isinstance(await _collect(world, "r3", most=3), Joined)
        assert isinstance(await _collect(world, "r4", most=3), Made)
        assert await world.claimed_ids(worker) == ["r1"]
        assert await _collect(world, "r5", most=3) == Joined(await world.get("r4"))
        assert [event_of(message).message for message in await world.unread("r1")] == ["input r2", "input r3"]

    async def test_a_collecting_run_is_not_put_off(self, world: World) -> None:
        await _collect(world, "r1", most=10)
        due = (await world.get("r1")).available_at
        world.clock.advance(seconds(0.5))
        await _collect(world, "r2", most=10)
        assert (await world.get("r1")).available_at == due

    async def test_concurrent_starts_lose_no_input(self, world: World) -> None:
        """Contract: of any number at once each input is in one run, and no run has more than its room."""
        made = await asyncio.gather(*(_collect(world, f"r{count}", most=4) for count in range(CALLERS)))
        assert Counter(type(creation) for creation in made) == {Made: 3, Joined: 7}
        runs = Counter(c.run.id for c in made if isinstance(c, Made | Joined))
        assert sorted(runs.values()) == [2, 4, 4]
        for run, count in runs.items():
            assert len(await world.unread(run)) == count - 1

    async def test_inputs_race_with_the_claim(self, world: World) -> None:
        """Contract: what a start joined is in the inbox that the claim finds, or the start did not join."""
        await _debounce(world, "r0")
        world.clock.advance(seconds(31))
        worker = await world.worker()
        calls = [_debounce(world, f"r{count}") for count in range(1, CALLERS)]
        claims, made = await asyncio.gather(world.claim(worker), asyncio.gather(*calls))
        [row] = claims.runs or (await world.claim(worker)).runs  # it does not wait for one that is being written
        assert row.inbox_last == sum(isinstance(creation, Joined) for creation in made)


async def _debounce(
    world: World, run: str, workflow: str = "order", *, wait: float = 30, latest: float = 300, **facts: object
) -> Creation:
    now = world.clock.now()
    begins = now + seconds(wait)
    event = e.InputGiven(message=f"input {run}", value=msgspec.Raw(f'"{run}"'.encode()), begins_at=begins)
    joins = Joining(message=f"input {run}", body=encode_event(event), begins_at=begins)
    given = {"unique": "u", "available_at": begins, "latest": now + seconds(latest), **facts}
    return await world.create(world.new(run, workflow, joins=joins, **given))


async def _collect(world: World, run: str, *, most: int) -> Creation:
    begins = world.clock.now() + seconds(1)
    event = e.InputGiven(message=f"input {run}", into="rows", value=msgspec.Raw(b"1"))
    joins = Joining(message=f"input {run}", body=encode_event(event), room=most - 1, makes_another=True)
    new = world.new(run, joins=joins, unique="u", available_at=begins, latest=begins, most=most)
    return await world.create(new)
