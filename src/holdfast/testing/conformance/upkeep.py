"""Upkeep: retention, garbage collection of blobs, duties and the report of space."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from holdfast.core import events as e
from holdfast.core.payload import hash_of
from holdfast.core.references import ReferringBytes
from holdfast.errors import BlobNotFound
from holdfast.ports.blobs import Stub
from holdfast.ports.inbox import Missing, message, publication
from holdfast.ports.runs import Existing, Lacking, Made
from holdfast.ports.upkeep import Collected, Removed
from holdfast.testing.conformance.snapshots import long_run, snapshot_of, stand_in_for
from holdfast.testing.conformance.suite import Suite, shows
from holdfast.testing.conformance.world import DONE, World, seconds, signal

KEEP = timedelta(days=30)
GRACE = timedelta(days=1)
TTL = seconds(60)
BIG = b'"large"'
NAME = hash_of(BIG)
HIDDEN = msgspec.Raw(b'"encrypted"')
"""A payload that contains no name."""


def carrying(name: str = NAME) -> e.StepCompleted:
    """An outcome whose payload is a blob."""
    return e.StepCompleted(key="s", blob=name)


class UpkeepSuite(Suite):
    """What keeps a store from growing forever, and what must never be removed."""

    # -- retention -----------------------------------------------------------------------------------------------------

    async def test_an_ended_run_expires(self, world: World) -> None:
        """Contract: exactly when it ended `keep` ago, and not a moment before; it is then removed without a trace."""
        await world.ended_run("r")
        world.clock.advance(KEEP - seconds(1))
        assert (await world.store.expired(KEEP)).roots == []
        assert await world.store.remove(["r"], KEEP) == Removed()
        world.clock.advance(seconds(1))
        assert (await world.store.expired(KEEP)).roots == ["r"]
        assert await world.store.remove(["r"], KEEP) == Removed(1, 1, 2)
        assert await world.store.get("r") is None
        assert await world.store.history("r") == []
        assert (await world.store.expired(KEEP)).roots == []

    async def test_a_run_says_how_long_it_is_kept(self, world: World) -> None:
        """Contract: `Started.keep` comes before the default, in both directions."""
        await world.ended_run("short", keep=timedelta(days=1))
        await world.ended_run("long", keep=timedelta(days=365))
        await world.ended_run("default")
        world.clock.advance(KEEP)
        assert (await world.store.expired(KEEP)).roots == ["short", "default"]
        assert (await world.store.expired(None)).roots == ["short"]
        assert await world.store.remove(["short", "long", "default"], None) == Removed(1, 1, 2)
        world.clock.advance(timedelta(days=365))
        assert (await world.store.expired(None)).roots == ["long"]

    @shows("stepflow.J12")
    async def test_a_tree_goes_as_a_whole_or_not_at_all(self, world: World) -> None:
        """Contract: root and all descendants have ended, the last of them long enough ago; then all go together."""
        parent = await world.held_run("p")
        await parent.commits(children=(parent.child("p/a", "a"),))
        child = await world.holder("p/a")
        await child.commits(children=(child.child("p/a/b", "b"),))
        await child.commits(DONE)
        await parent.commits(DONE, inbox_seen=1)
        grandchild = await world.holder("p/a/b")
        world.clock.advance(KEEP)
        assert (await world.store.expired(KEEP)).roots == []
        assert await world.store.remove(["p"], KEEP) == Removed()
        await grandchild.commits(DONE)
        world.clock.advance(KEEP - seconds(1))
        assert (await world.store.expired(KEEP)).roots == []
        world.clock.advance(seconds(1))
        assert (await world.store.expired(KEEP)).roots == ["p"]
        removed = await world.store.remove(["p"], KEEP)
        assert (removed.trees, removed.runs) == (1, 3)
        assert [await world.store.get(name) for name in ("p", "p/a", "p/a/b")] == [None] * 3

    async def test_a_child_does_not_go_without_its_root(self, world: World) -> None:
        """Contract: only roots expire, and naming a child removes nothing."""
        parent = await world.held_run("p")
        await parent.commits(children=(parent.child("p/a", "a"),))
        await (await world.holder("p/a")).commits(DONE)
        await parent.commits(DONE, inbox_seen=1)
        world.clock.advance(KEEP)
        assert await world.store.remove(["p/a"], KEEP) == Removed()
        assert (await world.store.expired(KEEP)).roots == ["p"]

    @shows("stepflow.J12")
    async def test_nothing_of_a_removed_run_is_left(self, world: World) -> None:
        """Contract: its inbox, exposed values, attributes and snapshot go too; a message finds no run, and the id
        starts a new one with another number."""
        holder = await world.held_run("r", attributes={"tier": "gold"})
        await world.store.send(signal("r", "m1"))
        await holder.commits(e.Exposed(name="progress", value=msgspec.Raw(b"1")), inbox_seen=1, is_consuming=True)
        await holder.commits(DONE, inbox_seen=1)
        await world.put_snapshot(holder.no, *(await snapshot_of(world, "r", 2)))
        world.clock.advance(KEEP)
        assert (await world.store.remove(["r"], KEEP)).runs == 1
        assert isinstance(await world.store.send(signal("r", "m1")), Missing)
        assert await world.store.exposed("r", "progress") is None
        assert dict(await world.store.snapshots([holder.no])) == {}
        creation = await world.create(world.new("r"))
        assert isinstance(creation, Made)
        assert creation.run.no != holder.no
        assert creation.run.attributes == {}
        assert await world.unread("r") == []

    async def test_a_stale_holder_of_a_removed_run_is_fenced(self, world: World) -> None:
        """Contract: a worker that comes back after retention writes nothing, not even into a run that took the id."""
        holder = await world.held_run("r")
        late = holder.turn()
        await holder.commits(DONE)
        world.clock.advance(KEEP)
        await world.store.remove(["r"], KEEP)
        await world.make("r")
        before = await world.dump()
        [verdict] = await world.store.commit([late])
        assert type(verdict).__name__ == "Fenced"
        assert await world.dump() == before

    async def test_the_numbers_of_removed_rows_are_not_used_again(self, world: World) -> None:
        """Contract: seq continues, whatever was removed, be it the newest row of the journal, or all of it."""
        highest = 0
        for name in ("r", "s", "t"):
            await world.ended_run(name)
            rows = await world.store.history(name)
            assert rows[0].seq > highest
            highest = rows[-1].seq
            world.clock.advance(KEEP)
            assert await world.store.remove([name], KEEP) == Removed(1, 1, len(rows))
            assert await world.store.trees() == []
        assert (await (await world.held_run("r")).commits()).seq > highest

    async def test_expired_roots_are_paged(self, world: World) -> None:
        """Contract: oldest first, page by page, each once; a cursor continues although its root was removed."""
        for number in range(5):
            await world.ended_run(f"r{number}")
            world.clock.advance(seconds(1))
        await world.held_run("running")
        world.clock.advance(KEEP)
        found: list[str] = []
        after = ""
        while True:
            page = await world.store.expired(KEEP, after=after, limit=2)
            found += page.roots
            await world.store.remove(page.roots, KEEP)
            after = page.next
            if not after:
                break
        assert found == [f"r{number}" for number in range(5)]
        assert [run.id for run in await world.runs()] == ["running"]

    # -- duties --------------------------------------------------------------------------------------------------------

    async def test_one_at_a_time_has_a_duty(self, world: World) -> None:
        """Contract: who has it keeps it and may prolong it; others get it when it ran out or was dropped."""
        take, drop = world.store.take_duty, world.store.drop_duty
        assert await take("sweep", holder="a", ttl=TTL)
        assert not await take("sweep", holder="b", ttl=TTL)
        assert await take("other", holder="b", ttl=TTL)
        world.clock.advance(seconds(59))
        assert await take("sweep", holder="a", ttl=TTL)
        world.clock.advance(seconds(59))
        assert not await take("sweep", holder="b", ttl=TTL)
        world.clock.advance(seconds(1))
        assert await take("sweep", holder="b", ttl=TTL)
        await drop("sweep", holder="a")
        assert not await take("sweep", holder="a", ttl=TTL)
        await drop("sweep", holder="b")
        assert await take("sweep", holder="a", ttl=TTL)

    # -- blobs ---------------------------------------------------------------------------------------------------------

    async def test_what_nothing_refers_to_is_collected_after_the_grace(self, world: World) -> None:
        """Contract: not before, and with `is_dry` it is only counted; storing it again restarts the grace."""
        name = await world.store.put_blob(b"loose")
        world.clock.advance(GRACE)
        assert (await world.store.collect(GRACE)).blobs == 0
        await world.store.put_blob(b"loose")
        world.clock.advance(GRACE)
        assert (await world.store.collect(GRACE)).blobs == 0
        world.clock.advance(seconds(1))
        assert await world.store.collect(GRACE, is_dry=True) == Collected(1, 5)
        assert await world.store.collect(GRACE) == Collected(1, 5, (name,))
        with pytest.raises(BlobNotFound):
            await world.store.get_blob(name)

    async def test_what_only_some_trees_refer_to_is_counted(self, world: World) -> None:
        """Contract: not what another run refers to as well, nor what nothing does; nothing is changed."""
        first, second = await world.held_run("a"), await world.held_run("b")
        await first.commits(carrying(), blobs={NAME: BIG})
        own = await world.store.put_blob(b'"own"')
        await first.commits(e.StepCompleted(key="t", value=HIDDEN, refs=(own,)))
        await world.store.put_blob(b"loose")
        assert await world.store.held_only_by(["a"]) == Collected(2, len(BIG) + 5)
        await second.commits(carrying(), blobs={NAME: BIG})
        assert await world.store.held_only_by(["a"]) == Collected(1, 5)
        assert await world.store.held_only_by(["a", "b"]) == Collected(2, len(BIG) + 5)
        assert await world.store.held_only_by(["nobody"]) == Collected()

    async def test_collection_is_bounded(self, world: World) -> None:
        """Contract: at most `limit` at a time."""
        for number in range(5):
            await world.store.put_blob(b"%d" % number)
        world.clock.advance(GRACE * 2)
        assert [(await world.store.collect(GRACE, limit=2)).blobs for _ in range(4)] == [2, 2, 1, 0]

    @shows("stepflow.J12")
    async def test_what_a_journal_refers_to_stays(self, world: World) -> None:
        """Contract: as long as the run does, whether it came with the turn or before."""
        holder = await world.held_run("r")
        await holder.commits(carrying(), blobs={NAME: BIG})
        early = await world.store.put_blob(b'"early"')
        await holder.commits(e.StepCompleted(key="t", value=HIDDEN, refs=(early,)))
        world.clock.advance(GRACE * 10)
        assert (await world.store.collect(GRACE)).blobs == 0
        await holder.commits(DONE)
        world.clock.advance(KEEP)
        await world.store.remove(["r"], KEEP)
        assert (await world.store.collect(GRACE)).blobs == 0  # the grace begins when the last reference went
        world.clock.advance(GRACE + seconds(1))
        assert set((await world.store.collect(GRACE)).names) == {NAME, early}

    async def test_what_several_refer_to_stays_for_the_last(self, world: World) -> None:
        """Contract: one run's end does not affect another's blobs."""
        for name in ("a", "b"):
            holder = await world.held_run(name)
            await holder.commits(carrying(), blobs={NAME: BIG})
            if name == "a":
                await holder.commits(DONE)
        world.clock.advance(KEEP)
        assert (await world.store.remove(["a"], KEEP)).trees == 1
        world.clock.advance(GRACE * 2)
        assert (await world.store.collect(GRACE)).blobs == 0
        assert await world.store.get_blob(NAME) == BIG

    async def test_arguments_messages_and_exposed_values_keep_their_blobs(self, world: World) -> None:
        """Contract: a start, an unread message, a publication and a value shown are references too."""
        blobs = {hash_of(data): data for data in (b'"1"', b'"2"', b'"3"', b'"4"')}
        start, sent, told, shown = blobs
        await world.create(world.new("r", blob=start, blobs=((start, blobs[start]),)))
        holder = await world.holder("r")
        await holder.commits(e.WaitStarted(key="w", name="news", kind="topic"), watch=(("news", "w"),))
        event = e.SignalReceived(message="m", name="go", blob=sent)
        await world.store.send(message("r", "m", "signal", event, blobs=((sent, blobs[sent]),)))
        topic = e.TopicReceived(key="", message="t", name="news", blob=told)
        await world.store.publish(publication("news", "t", topic, blobs=((told, blobs[told]),)))
        await holder.commits(e.Exposed(name="progress", blob=shown), blobs={shown: blobs[shown]})
        world.clock.advance(GRACE * 2)
        assert (await world.store.collect(GRACE)).blobs == 0
        assert dict(await world.store.get_blobs(blobs)) == blobs

    async def test_a_blob_keeps_the_blobs_it_names(self, world: World) -> None:
        """Contract: a large payload that holds a reference counts; when it goes, what it named begins its grace."""
        inner = await world.store.put_blob(b"a step's own data", kind="user")
        data = ReferringBytes(b'"encrypted"', (inner,))
        holder = await world.held_run("r")
        await holder.commits(carrying(hash_of(data)), blobs={hash_of(data): data})
        world.clock.advance(GRACE * 2)
        assert (await world.store.collect(GRACE)).blobs == 0
        await holder.commits(DONE)
        world.clock.advance(KEEP)
        await world.store.remove(["r"], KEEP)
        world.clock.advance(GRACE * 2)
        assert (await world.store.collect(GRACE)).names == (hash_of(data),)
        assert (await world.store.collect(GRACE)).names == ()
        world.clock.advance(GRACE * 2)
        assert (await world.store.collect(GRACE)).names == (inner,)

    async def test_a_reference_that_comes_just_in_time_holds(self, world: World) -> None:
        """Contract: a turn that names a blob older than the grace, stored again with it, is never left without it."""
        await world.store.put_blob(BIG)
        world.clock.advance(GRACE * 2)
        holder = await world.held_run("r")
        await holder.commits(carrying(), blobs={NAME: BIG})
        assert (await world.store.collect(GRACE)).blobs == 0
        assert await world.store.get_blob(NAME) == BIG

    async def test_a_run_is_not_made_without_the_blobs_it_needs(self, world: World) -> None:
        """Contract: with one of several gone nothing is made, whether or not it would be claimed at once; what is left
        of them is not kept for it."""
        await world.worker("i1")
        first = await world.store.put_blob(BIG)
        world.clock.advance(GRACE * 2)
        second = await world.store.put_blob(b'"other"')
        await world.store.collect(GRACE)
        index = ReferringBytes(b'"encrypted"', (first, second))
        new = world.new("r", key="k", blob=hash_of(index), blobs=((hash_of(index), index),), needs=(first, second))
        before = await world.dump()
        assert await world.create(new) == Lacking()
        assert await world.create(new, instance="i1", worker="w1") == Lacking()
        assert await world.dump() == before
        world.clock.advance(GRACE * 2)
        assert (await world.store.collect(GRACE)).names == (second,)

    async def test_blobs_that_a_new_run_needs_stay(self, world: World) -> None:
        """Contract: however old they are, once the run is made; a second call finds the run, whatever is gone then."""
        names = [await world.store.put_blob(b'"%d"' % number) for number in range(3)]
        world.clock.advance(GRACE * 2)
        index = ReferringBytes(b'"encrypted"', names)
        new = world.new("r", blob=hash_of(index), blobs=((hash_of(index), index),), needs=tuple(names))
        assert isinstance(await world.create(new), Made)
        assert (await world.store.collect(GRACE)).blobs == 0
        assert len(await world.store.get_blobs([*names, hash_of(index)])) == 4
        again = msgspec.structs.replace(new, needs=(*names, NAME))
        assert await world.create(again) == Existing(await world.get("r"))

    async def test_a_fenced_turn_leaves_no_reference(self, world: World) -> None:
        """Contract: what it named may be collected."""
        await world.store.put_blob(BIG)
        holder = await world.held_run("r")
        stale = holder.turn(carrying(), blobs={NAME: BIG})
        await holder.commits()
        await world.store.commit([stale])
        world.clock.advance(GRACE * 2)
        assert (await world.store.collect(GRACE)).names == (NAME,)

    async def test_a_snapshot_keeps_its_segments(self, world: World) -> None:
        """Contract: they are collected only after the snapshot was dropped, and its grace."""
        holder = await long_run(world)
        snapshot, blobs = await snapshot_of(world, "r", 4)
        await world.put_snapshot(holder.no, snapshot, blobs)
        world.clock.advance(GRACE * 2)
        assert (await world.store.collect(GRACE)).blobs == 0
        await world.store.drop_snapshots()
        assert (await world.store.collect(GRACE)).blobs == 0
        world.clock.advance(GRACE + seconds(1))
        assert (await world.store.collect(GRACE)).names == tuple(blobs)

    async def test_compaction_keeps_what_a_replay_needs(self, world: World) -> None:
        """Contract: blobs that compacted turns named, and the segments, stay; what a `continue_as` left behind goes."""
        holder = await world.held_run("r")
        left = b'"left behind"'
        await holder.commits(carrying(hash_of(left)), blobs={hash_of(left): left})
        await holder.commits(e.Continued(workflow="order"))
        await holder.commits(carrying(), blobs={NAME: BIG})
        await holder.commits()
        await world.compact(holder.no, await stand_in_for(world, "r", 4))
        world.clock.advance(GRACE * 2)
        assert (await world.store.collect(GRACE)).names == (hash_of(left),)
        assert await world.store.get_blob(NAME) == BIG

    @shows("stepflow.B2", "stepflow.B5")
    async def test_a_blob_says_what_it_is_for(self, world: World) -> None:
        """Contract: its kind is the one it was first stored with; an unknown blob has none."""
        name = await world.store.put_blob(b"definition", kind="definition")
        await world.store.put_blob(b"definition")
        assert await world.store.blob_kind(name) == "definition"
        assert await world.store.blob_kind(NAME) is None
        assert await world.store.blob_kind("../x") is None

    async def test_a_blob_whose_bytes_are_elsewhere(self, world: World) -> None:
        """Contract: a stub is kept, referred to and collected like a blob, and has no bytes to give."""
        stub = Stub(NAME, len(BIG))
        assert await world.store.put_blob(stub) == NAME
        holder = await world.held_run("r")
        other = hash_of(b"other")
        await holder.commits(carrying(other), blobs={other: Stub(other, 7, (NAME,))})
        world.clock.advance(GRACE * 2)
        assert (await world.store.collect(GRACE)).blobs == 0
        for name in (NAME, other):
            with pytest.raises(BlobNotFound):
                await world.store.get_blob(name)

    # -- the report ----------------------------------------------------------------------------------------------------

    async def test_space_says_where_the_room_goes(self, world: World) -> None:
        """Contract: rows and bytes by table and kind of blob, and the largest journals first."""
        await long_run(world, "small", turns=1)
        holder = await long_run(world, "large", turns=9)
        await world.store.put_blob(b"12345", kind="user")
        await world.put_snapshot(holder.no, *(await snapshot_of(world, "large", 4)))
        space = await world.store.space(largest=1)
        tables = {part.name: part for part in space.tables}
        assert (tables["runs"].rows, tables["events"].rows, tables["snapshots"].rows) == (2, 12, 1)
        rows = [*(await world.store.history("small")), *(await world.store.history("large"))]
        assert tables["events"].bytes == sum(len(row.body) for row in rows)
        kinds = {part.name: part for part in space.blobs}
        assert (kinds["user"].rows, kinds["user"].bytes, kinds["segment"].rows) == (1, 5, 1)
        assert [(run.id, run.rows, run.status) for run in space.largest] == [("large", 10, "running")]
        assert space.total > 0
