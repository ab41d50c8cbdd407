"""Runs that take the unique value of another, and begin after the end of others."""

from __future__ import annotations

import asyncio
from hashlib import sha256

import pytest

from holdfast.core import events as e
from holdfast.core.messages import encode_event
from holdfast.ports.inbox import Message
from holdfast.ports.journal import Park
from holdfast.ports.runs import Creation, Existing, Lacking, Made, Replaced, RunRow
from holdfast.testing.conformance.suite import Suite
from holdfast.testing.conformance.world import BOOM, DONE, STOPPED, World, event_of, seconds, signal

CALLERS = 8


class SuccessionsSuite(Suite):
    """What a store owes to a start that takes the place of an open run."""

    async def test_the_new_run_takes_the_value_and_the_old_one_is_cancelled(self, world: World) -> None:
        """Contract: all of it with the start: the value, the cancel, and that it is not due before the old one ends."""
        holder = await world.held_run("old", unique="u")
        await holder.commits()
        made = await _replace(world, "new", after=("old",))
        assert isinstance(made, Made)
        assert made.run == await world.get("new")
        assert (made.run.available_at, made.run.instance) == (None, "")
        [cancel] = await world.unread("old")
        assert (cancel.kind, event_of(cancel).reason) == ("cancel", "replaced by new")
        assert await world.create(world.new("r3", unique="u")) == Existing(await world.get("new"), by="unique")
        world.clock.advance(seconds(3600))
        assert await world.claimed_ids(world.workers["i1"]) == []

    @pytest.mark.parametrize("end", [DONE, BOOM, STOPPED], ids=["completed", "failed", "cancelled"])
    async def test_the_end_of_the_old_run_wakes_the_new_one(self, world: World, end: e.Terminal) -> None:
        """Contract: however it ended, in the transaction of its end, and told with nothing but its id."""
        holder = await world.held_run("old", unique="u")
        await holder.commits()
        await _replace(world, "new", after=("old",))
        await holder.commits(end, inbox_seen=1, is_consuming=True)
        [told] = await world.unread("new")
        assert (told.kind, event_of(told)) == ("child", e.PredecessorEnded(run="old"))
        assert await world.claimed_ids(world.workers["i1"]) == ["new"]

    async def test_a_parked_run_is_woken_by_its_cancel(self, world: World) -> None:
        holder = await world.held_run("old", unique="u")
        await holder.parks(None)
        await _replace(world, "new", after=("old",))
        assert await world.claimed_ids(world.workers["i1"]) == ["old"]

    async def test_a_run_that_waits_for_nobody_is_due_at_once(self, world: World) -> None:
        """Contract: the old one has not begun and is not held, and nothing else has to end first."""
        await world.make("old", unique="u", available_at=world.clock.now() + seconds(60))
        worker = await world.worker()
        await _replace(world, "new", after=())
        assert set(await world.claimed_ids(worker)) == {"old", "new"}  # to be cancelled, and to begin

    async def test_a_run_that_changed_meanwhile_is_not_replaced(self, world: World) -> None:
        """Contract: if another run has the value, or the run has begun or been claimed since it was seen, nothing is
        written and the run is given as it is now."""
        await world.make("old", unique="u")
        seen = await world.get("old")
        await world.holder("old")
        before = await world.dump()
        assert await _replace(world, "new", seen) == Existing(await world.get("old"), by="unique")
        assert await _replace(world, "new", await world.make("stranger")) == Existing(
            await world.get("old"), by="unique"
        )
        after = await world.dump()
        assert before["inbox"]["old"] == after["inbox"]["old"]
        assert await world.store.get("new") is None

    async def test_a_run_that_ended_meanwhile_is_not_waited_for(self, world: World) -> None:
        """Contract: the value is free, no run is cancelled, and what has ended, or is not there, counts as ended."""
        holder = await world.held_run("old", unique="u")
        seen = await world.get("old")
        await holder.commits(DONE)
        made = await _replace(world, "new", seen, after=("old", "gone"))
        assert isinstance(made, Made)
        told = [event_of(message) for message in await world.unread("new")]
        assert told == [e.PredecessorEnded(run="old"), e.PredecessorEnded(run="gone")]
        assert await world.claimed_ids(world.workers["i1"]) == ["new"]

    async def test_the_last_end_wakes_a_run_that_waits_for_several(self, world: World) -> None:
        """Contract: each of them tells it, in any order, and none is told twice."""
        first, second = await world.held_run("a", unique="u"), await world.held_run("b", instance="i2")
        await first.commits()
        await second.commits()
        await _replace(world, "new", await world.get("a"), after=("a", "b"))
        await second.commits(DONE)
        await first.commits(DONE, inbox_seen=1, is_consuming=True)
        assert {event_of(message).run for message in await world.unread("new")} == {"a", "b"}

    async def test_a_start_that_is_refused_replaces_nobody(self, world: World) -> None:
        """Contract: without a blob that it needs, or with an id in use, the old run keeps its value and is not
        cancelled."""
        await world.held_run("old", unique="u")
        missing = sha256(b"missing").hexdigest()
        assert isinstance(await _replace(world, "new", needs=(missing,)), Lacking)
        await world.make("there")
        assert await _replace(world, "there") == Existing(await world.get("there"))
        assert await world.unread("old") == []
        assert await world.create(world.new("r3", unique="u")) == Existing(await world.get("old"), by="unique")

    async def test_it_is_never_made_already_claimed(self, world: World) -> None:
        await world.held_run("old", unique="u")
        made = await _replace(world, "new", after=("old",), instance="i1", worker="w1")
        assert isinstance(made, Made)
        assert (made.run.instance, made.run.epoch) == ("", 0)

    async def test_of_callers_that_saw_the_same_run_one_replaces_it(self, world: World) -> None:
        """Contract: the others are given the run that did, and no run is cancelled twice."""
        await world.held_run("old", unique="u")
        seen = await world.get("old")
        made = await asyncio.gather(*(_replace(world, f"new{count}", seen, ("old",)) for count in range(CALLERS)))
        [winner] = [creation.run.id for creation in made if isinstance(creation, Made)]
        assert {creation.run.id for creation in made if isinstance(creation, Existing)} == {winner}
        assert len(await world.unread("old")) == 1

    async def test_a_signal_wakes_it_and_it_can_be_given_back(self, world: World) -> None:
        """Contract: as any run that has not begun: given back until it is woken, it is due again with the end."""
        holder = await world.held_run("old", unique="u")
        await holder.commits()
        await _replace(world, "new", after=("old",))
        await world.store.send(signal("new", "s1"))
        waiting = await world.holder("new")
        await world.store.release(waiting.no, epoch=waiting.epoch, until=None, inbox_seen=1)
        assert await world.claimed_ids(world.workers["i1"]) == []
        await holder.commits(DONE, inbox_seen=1, is_consuming=True)
        assert await world.claimed_ids(world.workers["i1"]) == ["new"]

    async def test_a_paused_run_stays_paused(self, world: World) -> None:
        """Contract: its cancel waits for it, and so does the new run."""
        holder = await world.held_run("old", unique="u")
        await holder.commits(e.Paused(reason="operator"), park=Park(None))
        await _replace(world, "new", after=("old",))
        assert await world.claimed_ids(world.workers["i1"]) == []
        assert [message.kind for message in await world.unread("old")] == ["cancel"]


async def _replace(
    world: World,
    run: str,
    seen: RunRow | None = None,
    after: tuple[str, ...] = (),
    *,
    needs: tuple[str, ...] = (),
    **options: str,
) -> Creation:
    seen = seen or await world.get("old")
    event = e.CancelRequested(message="m", reason=f"replaced by {run}")
    cancel = Message(run=seen.id, id=f"replaced by {run}", kind="cancel", body=encode_event(event))
    replaced = Replaced(run=seen.id, is_idle=seen.is_idle, cancel=cancel)
    new = world.new(run, unique="u", replaces=replaced, after=after, needs=needs)
    return await world.create(new, **options)
