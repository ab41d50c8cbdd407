"""Journal, continued: children created with their parent's turn, and runs that existed before."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core import events as e
from holdfast.core.status import Status
from holdfast.ports.inbox import Message
from holdfast.ports.journal import Commit, Committed, Fenced, Park, Unread
from holdfast.testing.conformance.suite import Suite, shows
from holdfast.testing.conformance.world import BOOM, DONE, ENDS, Holder, World, event_of, seconds, signal

STEP = e.StepScheduled(key="charge")


def started(key: str, run: str, workflow: str = "parcel") -> e.ChildStarted:
    return e.ChildStarted(key=key, run=run, workflow=workflow)


async def start(parent: Holder, run: str, key: str, workflow: str = "parcel", park: Park | None = None) -> Committed:
    """A turn of the parent that starts one child."""
    return await parent.commits(started(key, run, workflow), children=(parent.child(run, key, workflow),), park=park)


async def endings(world: World, run: str) -> list[e.ChildEnded]:
    """The ends of other runs that a run was told of."""
    messages = await world.unread(run)
    assert {message.kind for message in messages} <= {"child"}
    return [event_of(message) for message in messages]


async def all_kinds(world: World, way: str) -> list[Commit]:
    """A batch in which runs continue, park, end, have news, were taken away, or appear twice."""
    names = ("continues", "stale", "ends", "unread", "parks", "reads", "has news", "twice", "watches")
    goes_on, stale, ends, unread, parks, reads, has_news, twice, watches = [
        await world.held_run(f"{way}/{name}") for name in names
    ]
    adopted = await world.held_run(f"{way}/adopted", workflow="parcel")
    await start(await world.held_run(f"{way}/parent"), adopted.id, "a", park=Park(None))
    await watches.commits(watch=(("news", "k"),))
    await world.store.take(stale.id, instance="i1", steal=True)
    for holder in (unread, reads, has_news):
        await world.store.send(signal(holder.id, "m"))
    (message,) = await world.unread(reads.id)
    first = twice.turn(STEP)
    twice.accept(first)
    return [
        stale.turn(STEP),
        goes_on.turn(STEP),
        unread.turn(DONE),
        ends.turn(DONE),
        adopted.turn(BOOM),
        parks.turn(park=Park(world.clock.now() + seconds(60))),
        reads.turn(inbox_seen=message.no, is_consuming=True),
        has_news.turn(STEP, is_progress=True),
        first,
        first,
        twice.turn(),
        watches.turn(BOOM, park=Park(world.clock.now())),
    ]


async def left_behind(world: World, way: str) -> dict[str, Any]:
    """What the rows of runs say, what they have not read, and which topics they watch."""
    watching = [watcher.run for watcher in await world.store.watchers("news")]
    return {
        row.id.removeprefix(f"{way}/"): (
            *(row.status, row.next_ordinal, row.available_at, row.instance, row.epoch, row.claims),
            *(row.inbox_last, row.inbox_read, len(await world.unread(row.id))),
            [run for run in watching if run == row.id],
        )
        for row in await world.runs()
        if row.id.startswith(way)
    }


class ChildrenSuite(Suite):
    """Journal, continued: children created with their parent's turn, and runs that existed before."""

    @shows("stepflow.M19")
    async def test_children_are_made_with_the_turn(self, world: World) -> None:
        """Contract: a child exists when its parent's turn does, pending and due, with its own journal."""
        parent = await world.held_run("p")
        await parent.commits(
            started("a", "p/a"),
            started("b", "p/b"),
            children=(parent.child("p/a", "a"), parent.child("p/b", "b", queue="slow", priority=3)),
        )
        for run, key, queue in (("p/a", "a", "default"), ("p/b", "b", "slow")):
            row = await world.get(run)
            assert (row.parent, row.parent_key, row.root) == ("p", key, "p")
            assert (row.status, row.queue, row.epoch, row.next_ordinal) == (Status.PENDING, queue, 0, 2)
            assert row.available_at == world.clock.now()
        assert await world.claimed_ids(world.workers["i1"]) == ["p/a"]

    async def test_children_of_a_fenced_turn_do_not_exist(self, world: World) -> None:
        """Contract: children and the turn are visible together or not at all."""
        parent = await world.held_run("p")
        await world.store.take("p", instance="i1", steal=True)
        verdict = await parent.commit(started("a", "p/a"), children=(parent.child("p/a", "a"),))
        assert isinstance(verdict, Fenced)
        assert await world.store.get("p/a") is None

    async def test_a_turn_sent_again_makes_its_children_once(self, world: World) -> None:
        """Contract: the same commit again adopts nothing and sends nothing."""
        parent = await world.held_run("p")
        commit = parent.turn(started("a", "p/a"), children=(parent.child("p/a", "a"),))
        await parent.submit(commit)
        child = await world.holder("p/a")
        await child.commits(DONE)
        before = await world.dump()
        assert isinstance((await world.store.commit([commit]))[0], Committed)
        assert await world.dump() == before

    async def test_a_childs_own_commit_tells_its_parent_once(self, world: World) -> None:
        """Contract: a child that was made tells its parent by a message in its terminal turn; the store adds none."""
        parent = await world.held_run("p")
        await start(parent, "p/a", "a", park=Park(None))
        assert (await world.get("p")).available_at is None
        child = await world.holder("p/a")
        world.clock.advance(5)
        ended = e.ChildEnded(key="a", run="p/a", status="completed", value=DONE.value, ended_at=world.clock.now())
        note = Message(run="p", id="end of p/a", kind="child", body=msgspec.json.encode(ended))
        await child.commits(DONE, messages=(note,))
        assert await endings(world, "p") == [ended]
        assert (await world.get("p")).available_at == world.clock.now()

    @pytest.mark.parametrize("name", list(ENDS))
    async def test_an_adopted_run_tells_its_watcher_of_its_end(self, world: World, name: str) -> None:
        """Contract: an id in use by a run of the same workflow is adopted; the watcher is told how and when it ends."""
        child = await world.held_run("shared", workflow="parcel")
        parent = await world.held_run("p")
        await start(parent, "shared", "a", park=Park(None))
        row = await world.get("shared")
        assert (row.parent, row.root, row.next_ordinal) == ("", "shared", 2)
        assert await endings(world, "p") == []
        world.clock.advance(5)
        end = next(end for each, end in ENDS.items() if each == name)
        await child.commits(end)
        (told,) = await endings(world, "p")
        assert (told.key, told.run, told.status, told.ended_at) == ("a", "shared", name, world.clock.now())
        assert bytes(told.value) == (bytes(DONE.value) if name == "completed" else b"null")
        assert told.failure == (BOOM.failure if name == "failed" else told.failure)
        assert (await world.get("p")).available_at == world.clock.now()

    async def test_an_adopted_runs_large_result_is_passed_by_name(self, world: World) -> None:
        """Contract: a result in a blob reaches the watcher as that blob's name."""
        name = await world.store.put_blob(b"x" * 1000)
        child = await world.held_run("shared", workflow="parcel")
        parent = await world.held_run("p")
        await start(parent, "shared", "a")
        await child.commits(e.Completed(blob=name))
        (told,) = await endings(world, "p")
        assert (told.blob, bytes(told.value)) == (name, b"null")

    @shows("stepflow.R14")
    async def test_an_adopted_run_that_has_ended_tells_at_once(self, world: World) -> None:
        """Contract: the watcher of an ended run is told with the turn that adopts it, and stays awake if it parks."""
        await world.ended_run("shared", workflow="parcel")
        ended_at = world.clock.now()
        parent = await world.held_run("p")
        world.clock.advance(60)
        verdict = await start(parent, "shared", "a", park=Park(None))
        (message,) = await world.unread("p")
        (told,) = await endings(world, "p")
        assert (told.key, told.status, told.ended_at) == ("a", "completed", ended_at)
        assert bytes(told.value) == bytes(DONE.value)
        assert verdict.inbox_last == message.no
        assert (await world.get("p")).available_at == world.clock.now()

    async def test_many_watchers_of_one_run_are_each_told_once(self, world: World) -> None:
        """Contract: every adopter is told under its own key, also one that adopts the run twice."""
        child = await world.held_run("shared", workflow="parcel")
        parents = [await world.held_run(name) for name in ("p", "q")]
        for parent in parents:
            await start(parent, "shared", "a")
        await start(parents[0], "shared", "b")
        await child.commits(BOOM)
        assert [told.key for told in await endings(world, "p")] == ["a", "b"]
        assert [told.key for told in await endings(world, "q")] == ["a"]

    async def test_an_adopter_that_ended_is_not_told(self, world: World) -> None:
        """Contract: telling an ended run is dropped and does not disturb the run that ends."""
        child = await world.held_run("shared", workflow="parcel")
        parent = await world.held_run("p")
        await start(parent, "shared", "a")
        await parent.commits(DONE)
        await child.commits(DONE)
        assert await world.unread("p") == []
        assert (await world.get("p")).available_at is None

    async def test_an_id_of_another_workflow_is_a_conflict_for_the_parent_alone(self, world: World) -> None:
        """Contract: the turn is committed, the watcher gets a failed ChildEnded with a Conflict, and the run
        continues."""
        await world.make("shared", "order")
        before = await world.get("shared")
        parent = await world.held_run("p")
        await start(parent, "shared", "a", "parcel", park=Park(None))
        (told,) = await endings(world, "p")
        assert (told.key, told.run, told.status) == ("a", "shared", "failed")
        assert told.failure is not None
        assert told.failure.type.split(".")[-1] == "Conflict"
        assert "shared" in told.failure.message
        assert await world.get("shared") == before
        assert (await world.get("p")).available_at == world.clock.now()

    async def test_a_run_without_a_watcher_is_adopted_silently(self, world: World) -> None:
        """Contract: an id in use never fails the turn, with or without a watcher."""
        await world.ended_run("done", workflow="parcel")
        await world.make("busy", "order")
        parent = await world.held_run("p")
        children = tuple(world.new(run, "parcel") for run in ("done", "busy"))
        await parent.commits(children=children)
        assert await world.unread("p") == []

    async def test_a_run_that_begins_anew_is_told_again(self, world: World) -> None:
        """Contract: starting an ended child again, after `continue_as`, is reported again, not lost as a repeat."""
        parent = await world.held_run("p")
        await start(parent, "p/a", "a")
        child = await world.holder("p/a")
        ended = e.ChildEnded(key="a", run="p/a", status="completed", value=DONE.value)
        await child.commits(DONE, messages=(Message(run="p", id="end", kind="child", body=msgspec.json.encode(ended)),))
        (message,) = await world.unread("p")
        again = e.Continued(workflow="order")
        await parent.commits(ended, again, inbox_seen=message.no, is_consuming=True)
        for _ in range(2):
            await start(parent, "p/a", "a")
            (last,) = await world.unread("p")
            assert event_of(last).run == "p/a"
            await parent.commits(event_of(last), again, inbox_seen=last.no, is_consuming=True)
        assert await world.unread("p") == []

    async def test_a_running_child_started_again_tells_its_parent_once(self, world: World) -> None:
        """Contract: a child's own message reaches the wait of the same key; adopting it again adds no second one."""
        parent = await world.held_run("p")
        await start(parent, "p/a", "a")
        await parent.commits(e.Continued(workflow="order"))
        await start(parent, "p/a", "a")
        child = await world.holder("p/a")
        ended = e.ChildEnded(key="a", run="p/a", status="completed", value=DONE.value)
        await child.commits(DONE, messages=(Message(run="p", id="end", kind="child", body=msgspec.json.encode(ended)),))
        assert await endings(world, "p") == [ended]

    # -- batches -------------------------------------------------------------------------------------------------------

    async def test_each_turn_of_a_batch_is_judged_as_if_it_were_alone(self, world: World) -> None:
        """Contract: the verdict on each turn of a batch and its effects are the same as if the turns came one after the
        other; seq grows in the order of the batch."""
        found: dict[str, Any] = {}
        for way in ("alone", "together"):
            batch = await all_kinds(world, way)
            if way == "together":
                verdicts = list(await world.store.commit(batch))
            else:
                verdicts = [(await world.store.commit([commit]))[0] for commit in batch]
            seqs = [verdict.seq for verdict in verdicts if isinstance(verdict, Committed)]
            assert seqs == sorted(seqs)
            assert len(set(seqs)) == len(seqs) - 1  # the one that came twice
            found[way] = [type(verdict) for verdict in verdicts], await left_behind(world, way)
        assert found["alone"] == found["together"]
        kinds, left = found["together"]
        assert [kinds.count(kind) for kind in (Committed, Fenced, Unread)] == [10, 1, 1]
        assert left["parent"] == (Status.RUNNING, 3, world.clock.now(), "", 1, 0, 1, 0, 1, [])
