"""Schedules: one row each, moved once per revision, together with its runs and messages or not at all."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from holdfast.ports.schedules import SCHEDULES, Move, Moved, Outrun, StoredSchedule
from holdfast.testing.conformance.suite import Suite
from holdfast.testing.conformance.world import START, World, seconds, signal


def move(name: str, revision: int, next_at: datetime | None = None, **rest: Any) -> Move:
    """A move to a body that contains its revision."""
    values: dict[str, Any] = {"workflow": "order", "body": f"{revision + 1}".encode(), **rest}
    return Move(name=name, revision=revision, next_at=next_at, **values)


async def put(world: World, name: str, next_at: datetime | None = None) -> None:
    """Creates a schedule that must not exist yet."""
    assert await world.store.move_schedule(move(name, 0, next_at)) == Moved()


class SchedulesSuite(Suite):
    """Schedules: fenced moves, and what is due."""

    async def test_a_schedule_is_kept_as_it_was_moved(self, world: World) -> None:
        """Contract: name, time, workflow and body come back; the revision rises by one with each move."""
        await put(world, "nightly", START + seconds(5))
        expected = StoredSchedule(name="nightly", revision=1, next_at=START + seconds(5), workflow="order", body=b"1")
        assert await world.store.schedule("nightly") == expected
        assert await world.store.move_schedule(move("nightly", 1, workflow="parcel")) == Moved()
        expected = StoredSchedule(name="nightly", revision=2, next_at=None, workflow="parcel", body=b"2")
        assert await world.store.schedule("nightly") == expected
        assert await world.store.schedule("weekly") is None

    async def test_a_move_from_an_earlier_revision_leaves_no_trace(self, world: World) -> None:
        """Contract: of two processes that decide from the same row, one moves it; the other writes neither row nor run
        nor message."""
        await world.make("r1")
        await put(world, "nightly")
        first = move("nightly", 1, runs=(world.new("nightly@1"),))
        assert await world.store.move_schedule(first) == Moved(("nightly@1",))
        before = await world.dump()
        late = move("nightly", 1, runs=(world.new("nightly@2"),), messages=(signal("r1", "m1"),), body=b"late")
        assert await world.store.move_schedule(late) == Outrun()
        assert await world.store.move_schedule(first) == Outrun()  # sent again after a lost answer
        assert await world.store.move_schedule(move("nightly", 0)) == Outrun()
        assert await world.store.move_schedule(move("weekly", 3)) == Outrun()
        assert await world.dump() == before
        stored = await world.store.schedule("nightly")
        assert stored is not None
        assert (stored.revision, stored.body) == (2, b"2")

    async def test_any_number_of_movers_start_one_run(self, world: World) -> None:
        """Contract: of any number of concurrent movers, one moves the schedule and creates its run."""
        await put(world, "nightly")
        moves = [move("nightly", 1, runs=(world.new(f"nightly@{number}"),)) for number in range(10)]
        answers = await asyncio.gather(*(world.store.move_schedule(one) for one in moves))
        assert sum(isinstance(answer, Moved) for answer in answers) == 1
        assert len(await world.runs()) == 1
        await world.verify()

    async def test_a_run_that_is_there_already_is_left_alone(self, world: World) -> None:
        """Contract: the slot has its run; the move goes through, and names only what it made."""
        made = await world.make("nightly@1", workflow="parcel")
        await put(world, "nightly")
        both = (world.new("nightly@1"), world.new("nightly@2"))
        assert await world.store.move_schedule(move("nightly", 1, runs=both)) == Moved(("nightly@2",))
        assert await world.get("nightly@1") == made
        await world.verify()

    async def test_runs_of_a_move_are_whole(self, world: World) -> None:
        """Contract: blobs, attributes and the journal of such a run are as `create` makes them, and it can be
        claimed."""
        await put(world, "nightly")
        new = world.new("nightly@1", attributes={"schedule": "nightly"})
        await world.store.move_schedule(move("nightly", 1, runs=(new,)))
        assert (await world.get("nightly@1")).attributes == {"schedule": "nightly"}
        worker = await world.worker()
        assert await world.claimed_ids(worker) == ["nightly@1"]
        await world.verify()

    async def test_messages_of_a_move_are_delivered_with_it(self, world: World) -> None:
        """Contract: they are in the inboxes; those to ended and missing runs are dropped."""
        await world.make("r1")
        await world.ended_run("r2")
        await put(world, "nightly")
        messages = (signal("r1", "m1"), signal("r2", "m2"), signal("r3", "m3"))
        assert await world.store.move_schedule(move("nightly", 1, messages=messages)) == Moved()
        assert [message.id for message in await world.unread("r1")] == ["m1"]

    async def test_due_schedules_come_longest_waiting_first(self, world: World) -> None:
        """Contract: those whose time has come, up to the limit; the store's time; and when the next one is due."""
        due = world.store.due_schedules
        assert (await due()).next_at is None
        for name, after in (("c", 3), ("a", 1), ("b", 1), ("d", 60)):
            await put(world, name, START + seconds(after))
        await put(world, "never")
        found = await due()
        assert (found.now, found.schedules, found.next_at) == (START, [], START + seconds(1))
        world.clock.advance(seconds(3))
        found = await due()
        assert [one.name for one in found.schedules] == ["a", "b", "c"]
        assert (found.now, found.next_at) == (START + seconds(3), START + seconds(60))
        found = await due(limit=1)
        assert ([one.name for one in found.schedules], found.next_at) == (["a"], START + seconds(1))

    async def test_schedules_are_listed_by_name(self, world: World) -> None:
        """Contract: page by page, in the order of code points, whether due or not."""
        for name in ("b", "ä", "B", "a", "a/1"):
            await put(world, name)
        listed = world.store.schedules
        assert [one.name for one in await listed()] == ["B", "a", "a/1", "b", "ä"]
        assert [one.name for one in await listed(after="a", limit=2)] == ["a/1", "b"]

    async def test_an_empty_body_removes_a_schedule(self, world: World) -> None:
        """Contract: it is gone, and one of its name begins with revision 1 again."""
        await put(world, "nightly", START)
        assert await world.store.move_schedule(move("nightly", 2, body=b"")) == Outrun()
        assert await world.store.move_schedule(move("nightly", 1, body=b"")) == Moved()
        assert await world.store.schedule("nightly") is None
        assert (await world.store.due_schedules()).schedules == []
        await put(world, "nightly")

    async def test_listeners_hear_of_runs_and_of_changes_by_hand(self, world: World) -> None:
        """Contract: workers that wait for work are told of the run, and that a person changed a schedule."""
        heard: list[str] = []
        unsubscribe = world.store.subscribe(heard.append)
        await put(world, "nightly")
        assert heard == []
        await world.store.move_schedule(move("nightly", 1, runs=(world.new("nightly@1"),)))
        assert heard == ["nightly@1"]
        await world.store.move_schedule(move("nightly", 2, by_hand=True))
        assert heard == ["nightly@1", SCHEDULES]
        unsubscribe()
