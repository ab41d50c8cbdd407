"""Snapshots and compaction: what is stored beside a journal, and in place of its beginning."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from holdfast.core import events as e
from holdfast.core.fold import fold
from holdfast.core.snapshot import Snapshot, advance, stand_in, to_snapshot, unpacked
from holdfast.core.turn import Row, decode_rows, is_compacted
from holdfast.ports.journal import Committed, Fenced
from holdfast.testing.conformance.suite import Suite, shows
from holdfast.testing.conformance.world import DONE, Holder, World, signal

SEGMENT = b"packed turns"


def step(number: int) -> tuple[e.StepScheduled, e.StepCompleted]:
    """A step that is asked for, and its outcome."""
    return e.StepScheduled(key=f"s{number}"), e.StepCompleted(key=f"s{number}", value=msgspec.Raw(b"%d" % number))


async def long_run(world: World, name: str = "r", turns: int = 6) -> Holder:
    """A run with that many turns after its start, a step in each."""
    holder = await world.held_run(name)
    for number in range(turns):
        await holder.commits(*step(number))
    return holder


async def snapshot_of(world: World, run: str, ordinal: int) -> tuple[Snapshot, dict[str, bytes]]:
    """The snapshot of the first rows of a journal, and its blobs."""
    rows = (await world.store.history(run))[:ordinal]
    past, blobs = advance(run, None, decode_rows(rows))
    return to_snapshot(past, ordinal, rows[-1].checksum), blobs


async def stand_in_for(world: World, run: str, ordinal: int) -> Row:
    """The row that replaces the first rows of a journal; its segment is stored, as by a snapshot."""
    rows = (await world.store.history(run))[:ordinal]
    past, blobs = advance(run, None, decode_rows(rows))
    for data in blobs.values():
        await world.store.put_blob(data, kind="segment")
    return stand_in(past, rows[-1])


class SnapshotSuite(Suite):
    """Snapshots are disposable; compaction is not, and so it is fenced."""

    # -- snapshots -----------------------------------------------------------------------------------------------------

    async def test_a_snapshot_comes_back(self, world: World) -> None:
        """Contract: `snapshots` gives the one of each run that has one, as it was; its blobs are there."""
        holder, other = await long_run(world), await long_run(world, "other")
        snapshot, blobs = await snapshot_of(world, "r", 4)
        assert await world.put_snapshot(holder.no, snapshot, blobs)
        assert dict(await world.store.snapshots([holder.no, other.no, 999])) == {holder.no: snapshot}
        assert dict(await world.store.get_blobs(blobs)) == blobs
        assert [await world.store.blob_kind(name) for name in blobs] == ["segment"]

    async def test_a_snapshot_changes_nothing_else(self, world: World) -> None:
        """Contract: with or without snapshots, journals, runs and inboxes are the same; all can be dropped."""
        holder = await long_run(world)
        before = await world.dump()
        snapshot, blobs = await snapshot_of(world, "r", 4)
        await world.put_snapshot(holder.no, snapshot, blobs)
        assert await world.dump() == before
        assert await world.store.drop_snapshots() == 1
        assert dict(await world.store.snapshots([holder.no])) == {}
        assert await world.store.drop_snapshots([holder.no]) == 0
        assert await world.dump() == before

    async def test_snapshots_of_chosen_runs_are_dropped(self, world: World) -> None:
        """Contract: `drop_snapshots` of some runs leaves those of others."""
        holders = [await long_run(world, name) for name in ("a", "b")]
        for holder in holders:
            await world.put_snapshot(holder.no, *(await snapshot_of(world, holder.id, 4)))
        assert await world.store.drop_snapshots([holders[0].no, 999]) == 1
        assert set(await world.store.snapshots([holder.no for holder in holders])) == {holders[1].no}

    async def test_a_snapshot_of_other_rows_is_refused(self, world: World) -> None:
        """Contract: fenced by (run, ordinal, checksum): for different rows it writes nothing."""
        holder = await long_run(world)
        snapshot, blobs = await snapshot_of(world, "r", 4)
        for wrong in (
            msgspec.structs.replace(snapshot, ordinal=5),
            msgspec.structs.replace(snapshot, ordinal=99),
            msgspec.structs.replace(snapshot, checksum=bytes(16)),
        ):
            assert not await world.put_snapshot(holder.no, wrong, blobs)
        assert not await world.put_snapshot(999, snapshot, blobs)
        assert dict(await world.store.snapshots([holder.no])) == {}
        assert [await world.store.blob_kind(name) for name in blobs] == [None]

    async def test_an_older_snapshot_does_not_replace_a_newer_one(self, world: World) -> None:
        """Contract: the latest stays; the same one again is taken."""
        holder = await long_run(world)
        older, newer = await snapshot_of(world, "r", 3), await snapshot_of(world, "r", 5)
        assert await world.put_snapshot(holder.no, *older)
        assert await world.put_snapshot(holder.no, *newer)
        assert not await world.put_snapshot(holder.no, *older)
        assert await world.put_snapshot(holder.no, *newer)
        assert (await world.store.snapshots([holder.no]))[holder.no] == newer[0]

    async def test_a_snapshot_needs_no_lease(self, world: World) -> None:
        """Contract: it may be made while a worker holds the run, and after the holder changed."""
        await long_run(world)
        holder = await long_run(world, "s")
        await holder.parks(world.clock.now())
        again = await world.holder("s", instance="i2")
        snapshot, blobs = await snapshot_of(world, "s", 4)
        assert await world.put_snapshot(holder.no, snapshot, blobs)
        assert isinstance(await again.commit(), Committed)

    # -- compaction ----------------------------------------------------------------------------------------------------

    @shows("stepflow.J7", "traps.A10")
    async def test_a_stand_in_takes_the_place_of_the_rows_before(self, world: World) -> None:
        """Contract: one row is left of rows 1 to k, with the ordinal, epoch, time, checksum and seq of row k; the rows
        after it stay as they were, and what is left folds to the same run and chains."""
        await long_run(world)
        before = await world.store.history("r")
        row = await world.get("r")
        assert await world.compact(row.no, await stand_in_for(world, "r", 5)) == 4
        after = await world.store.history("r")
        assert is_compacted(after[0])
        kept = ("ordinal", "epoch", "at", "checksum", "seq")
        assert [getattr(after[0], name) for name in kept] == [getattr(before[4], name) for name in kept]
        assert after[1:] == before[5:]
        assert fold("r", decode_rows(after)) == fold("r", decode_rows(before))
        assert await world.get("r") == row

    async def test_the_holder_is_not_disturbed(self, world: World) -> None:
        """Contract: numbering continues, and what a holder writes next follows what it knows."""
        holder = await long_run(world)
        last = (await world.store.history("r"))[-1]
        await world.compact(holder.no, await stand_in_for(world, "r", 5))
        verdict = await holder.commit(*step(9))
        assert isinstance(verdict, Committed)
        assert verdict.seq > last.seq
        assert [row.ordinal for row in await world.store.history("r")] == [5, 6, 7, 8]

    async def test_reading_begins_with_the_stand_in(self, world: World) -> None:
        """Contract: a reader of a compacted row gets the stand-in first; later rows as ever."""
        holder = await long_run(world)
        await world.compact(holder.no, await stand_in_for(world, "r", 5))
        for first in (1, 4, 5):
            assert [row.ordinal for row in (await world.store.read({holder.no: first}))[holder.no]] == [5, 6, 7]
        assert [row.ordinal for row in (await world.store.read({holder.no: 6}))[holder.no]] == [6, 7]

    async def test_a_cursor_in_the_compacted_part_is_answered(self, world: World) -> None:
        """Contract: with a seq that is gone, `history` continues with the stand-in; with a later one, after it."""
        holder = await long_run(world)
        seqs = [row.seq for row in await world.store.history("r")]
        await world.compact(holder.no, await stand_in_for(world, "r", 5))
        for after in (0, *seqs[:4]):
            assert [row.ordinal for row in await world.store.history("r", after_seq=after, limit=2)] == [5, 6]
        assert [row.ordinal for row in await world.store.history("r", after_seq=seqs[4])] == [6, 7]

    @shows("stepflow.J6")
    async def test_only_the_rows_it_was_made_from_are_compacted(self, world: World) -> None:
        """Contract: fenced by the row it replaces: another checksum, epoch or time, and nothing changes."""
        holder = await long_run(world)
        row = await stand_in_for(world, "r", 5)
        before = await world.dump()
        for wrong in (
            msgspec.structs.replace(row, checksum=bytes(16)),
            msgspec.structs.replace(row, epoch=row.epoch + 1),
            msgspec.structs.replace(row, at=row.at + 1),
            msgspec.structs.replace(row, ordinal=4),
            msgspec.structs.replace(row, ordinal=99),
        ):
            assert await world.compact(holder.no, wrong) == 0
        assert await world.compact(999, row) == 0
        assert await world.dump() == before

    async def test_nothing_is_compacted_into_segments_that_are_gone(self, world: World) -> None:
        """Contract: a stand-in that comes late, its snapshot dropped and its segments collected, changes nothing; with
        one of several missing too."""
        holder = await long_run(world)
        snapshot, blobs = await snapshot_of(world, "r", 5)
        assert await world.put_snapshot(holder.no, snapshot, blobs)
        rows = (await world.store.history("r"))[:5]
        row = stand_in(advance("r", None, decode_rows(rows))[0], rows[-1])
        await world.store.drop_snapshots([holder.no])
        world.clock.advance(1)
        await world.store.collect(timedelta(0))
        before = await world.dump()
        assert await world.compact(holder.no, row) == 0
        assert await world.dump() == before
        past, _ = advance("r", None, decode_rows(rows[:3]))
        longer, last = advance("r", past, decode_rows(rows[3:], previous=rows[2].checksum))
        for data in last.values():
            await world.store.put_blob(data, kind="segment")
        assert len(longer.segments) == 2
        assert await world.compact(holder.no, stand_in(longer, rows[-1])) == 0
        assert [row.ordinal for row in await world.store.history("r")] == list(range(1, 8))

    async def test_the_newest_row_stays_a_turn(self, world: World) -> None:
        """Contract: the last row of a run is never compacted, so an end can be read and a lost answer be found."""
        holder = await long_run(world)
        before = await world.dump()
        assert await world.compact(holder.no, await stand_in_for(world, "r", 7)) == 0
        assert await world.dump() == before
        await holder.commits(DONE)
        assert await world.compact(holder.no, await stand_in_for(world, "r", 7)) == 6
        assert decode_rows(await world.store.history("r"))[-1].events[-1] == DONE

    async def test_a_stand_in_can_be_compacted_again(self, world: World) -> None:
        """Contract: later rows join it, and an older stand-in that comes late changes nothing."""
        holder = await long_run(world)
        first, second = await stand_in_for(world, "r", 3), await stand_in_for(world, "r", 6)
        assert await world.compact(holder.no, first) == 2
        assert await world.compact(holder.no, second) == 3
        assert await world.compact(holder.no, first) == 0
        assert [row.ordinal for row in await world.store.history("r")] == [6, 7]

    async def test_the_compacted_turns_can_be_read(self, world: World) -> None:
        """Contract: the stand-in names the segments that hold what a replay needs, and they are there."""
        holder = await long_run(world)
        await world.compact(holder.no, await stand_in_for(world, "r", 5))
        [event] = decode_rows(await world.store.history("r"))[0].events
        assert isinstance(event, e.Compacted)
        blobs = await world.store.get_blobs([segment.blob for segment in event.segments])
        turns = unpacked("r", event.segments, blobs)
        outcomes = [x.key for turn in turns for x in turn.events if isinstance(x, e.StepCompleted)]
        assert outcomes == ["s0", "s1", "s2", "s3"]

    async def test_a_commit_with_a_lost_answer_is_found_behind_a_stand_in(self, world: World) -> None:
        """Contract: the turn whose place the stand-in took is still known by epoch and checksum; earlier ones are
        fenced, and nothing is written twice."""
        holder = await world.held_run("r")
        sent = [holder.turn(*step(0))]
        await holder.submit(sent[0])
        for number in range(1, 4):
            commit = holder.turn(*step(number))
            await holder.submit(commit)
            sent.append(commit)
        await world.compact(holder.no, await stand_in_for(world, "r", 4))
        verdicts = [(await world.store.commit([commit]))[0] for commit in sent]
        assert [type(verdict) for verdict in verdicts] == [Fenced, Fenced, Committed, Committed]
        assert [row.ordinal for row in await world.store.history("r")] == [4, 5]

    async def test_consumed_messages_are_still_recognised(self, world: World) -> None:
        """Contract: after compaction a sender's late retry counts once, as before; unread messages stay readable."""
        holder = await world.held_run("r")
        await world.store.send(signal("r", "m1"))
        await holder.commits(
            e.SignalReceived(message="m1", name="go", value=msgspec.Raw(b"1")), inbox_seen=1, is_consuming=True
        )
        await world.store.send(signal("r", "m2"))
        await holder.commits()
        await world.compact(holder.no, await stand_in_for(world, "r", 2))
        await world.store.send(signal("r", "m1"))
        assert [message.id for message in await world.unread("r")] == ["m2"]
        assert (await world.unread("r"))[0].body == signal("r", "m2").body
