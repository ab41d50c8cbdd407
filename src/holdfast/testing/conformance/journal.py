"""Journal: what one `commit` promises about rows, fences, projections and time."""

from __future__ import annotations

import asyncio
from hashlib import sha256

import msgspec
import pytest

from holdfast.core import events as e
from holdfast.core.status import Status
from holdfast.core.turn import decode_rows
from holdfast.errors import BlobNotFound
from holdfast.ports.journal import Commit, Committed, Fenced, Park
from holdfast.testing.conformance.suite import Suite, shows
from holdfast.testing.conformance.world import DONE, TTL, Holder, World, chained, publication, seconds, signal

STEP = e.StepScheduled(key="charge")
BLOB = b"a large payload" * 100
BLOB_NAME = sha256(BLOB).hexdigest()


async def everything(holder: Holder) -> Commit:
    """A turn that uses everything a commit can: another run, a watcher, a child, the inbox, values, blobs."""
    world = holder.world
    await world.make("target")
    watcher = await world.held_run("watcher")
    await watcher.commits(watch=(("news", "watcher-key"),), park=Park(None))
    await world.store.send(signal(holder.id, "m1"))
    return holder.turn(
        STEP,
        e.Exposed(name="progress", value=msgspec.Raw(b"7")),
        inbox_seen=1,
        is_consuming=True,
        children=(holder.child("child", "c"),),
        messages=(signal("target", "m2"),),
        publications=(publication("news", "p1"),),
        watch=(("weather", "w"),),
        unwatch=("gone",),
        blobs={BLOB_NAME: BLOB},
        park=Park(world.clock.now() + seconds(60)),
    )


class JournalSuite(Suite):
    """Journal: what one `commit` promises about rows, fences, projections and time."""

    # -- rows ----------------------------------------------------------------------------------------------------------

    @shows("stepflow.J16")
    async def test_a_committed_row_reads_back_as_it_was_written(self, world: World) -> None:
        """Contract: a row is stored byte for byte, with a seq."""
        holder = await world.held_run("r")
        commit = holder.turn(e.StepScheduled(key="größe 📦", value=msgspec.Raw(b'{"a":"\\u0000 \xc3\xa9"}')))
        verdict = await holder.submit(commit)
        assert isinstance(verdict, Committed)
        (row,) = (await world.store.read({holder.no: 2}))[holder.no]
        assert row == msgspec.structs.replace(commit.row, seq=verdict.seq)

    async def test_seq_rises_strictly_over_all_runs(self, world: World) -> None:
        """Contract: seq is store-wide and strictly increases in the order of commits, within a batch too."""
        holders = [await world.held_run(f"r{number}") for number in range(3)]
        seqs: list[int] = []
        for _ in range(3):
            batch = [holder.turn() for holder in holders]
            verdicts = await world.store.commit(batch)
            for holder, commit, verdict in zip(holders, batch, verdicts, strict=True):
                assert isinstance(verdict, Committed)
                holder.accept(commit)
                seqs.append(verdict.seq)
        assert seqs == sorted(set(seqs))

    async def test_concurrent_appenders_leave_dense_ordinals(self, world: World) -> None:
        """Contract: of several writers with one epoch, each ordinal is won by exactly one; the journal has no gap."""
        row = (await world.held_run("r")).row

        async def append(name: str) -> int:
            won = 0
            while won < 5:
                holder = await world.reader(row)
                verdict = await holder.commit(e.Patched(name=f"{name}-{won}"))
                won += isinstance(verdict, Committed)
            return won

        assert await asyncio.gather(*(append(f"writer-{number}") for number in range(6))) == [5] * 6
        turns = decode_rows(await world.store.history("r"))
        patched = [event.name for turn in turns for event in turn.events if isinstance(event, e.Patched)]
        assert [turn.ordinal for turn in turns] == list(range(1, 32))
        assert len(set(patched)) == 30

    async def test_a_batch_of_many_runs_is_committed_as_one(self, world: World) -> None:
        """Contract: a batch has one verdict for each commit, in order."""
        holders = [await world.held_run(f"r{number}") for number in range(50)]
        verdicts = await world.store.commit([holder.turn(STEP) for holder in holders])
        assert [type(verdict) for verdict in verdicts] == [Committed] * 50
        for holder, verdict in zip(holders, verdicts, strict=True):
            assert isinstance(verdict, Committed)
            assert (await world.store.history(holder.id))[-1].seq == verdict.seq

    async def test_an_empty_batch_changes_nothing(self, world: World) -> None:
        """Contract: no commits, no verdicts."""
        await world.held_run("r")
        before = await world.dump()
        assert list(await world.store.commit([])) == []
        assert await world.dump() == before

    async def test_read_begins_at_an_ordinal(self, world: World) -> None:
        """Contract: `read` takes the first ordinal wanted, inclusive, for several runs at once."""
        first, second = await world.held_run("a"), await world.held_run("b")
        for _ in range(3):
            await first.commits()
            await second.commits()
        rows = await world.store.read({first.no: 3, second.no: 5, 999: 1})
        assert [row.ordinal for row in rows[first.no]] == [3, 4]
        assert list(rows.get(second.no, [])) == []
        assert list(rows.get(999, [])) == []
        assert {row.run for row in rows[first.no]} == {"a"}

    @shows("stepflow.J15")
    async def test_history_is_read_by_seq_in_pages(self, world: World) -> None:
        """Contract: `history` gives rows with a greater seq, oldest first, at most `limit`; an unknown run has none."""
        holder, other = await world.held_run("a"), await world.held_run("b")
        for _ in range(4):
            await holder.commits()
            await other.commits()
        ordinals: list[int] = []
        after = 0
        while rows := await world.store.history("a", after_seq=after, limit=2):
            assert len(rows) <= 2
            assert all(row.seq > after and row.run == "a" for row in rows)
            ordinals += [row.ordinal for row in rows]
            after = rows[-1].seq
        assert ordinals == [1, 2, 3, 4, 5]
        assert await world.store.history("nobody") == []

    # -- fences --------------------------------------------------------------------------------------------------------

    @shows("traps.A6", "traps.B1", "openworkflow.O26", "openworkflow.O28")
    @pytest.mark.parametrize("is_plain", [False, True])
    async def test_a_stale_epoch_is_fenced_without_a_trace(self, world: World, is_plain: bool) -> None:
        """Contract: after the lease moved on, the old epoch's turn is Fenced: no row, message, child, value or blob.
        So is a plain turn, which brings nothing but its row: a store may have a shorter way for it."""
        holder = await world.held_run("r")
        commit = holder.turn(STEP) if is_plain else await everything(holder)
        await world.store.take("r", instance="i1", steal=True)
        before = await world.dump()
        assert await holder.submit(commit) == Fenced(2, 2)
        assert await world.dump() == before
        assert await world.store.get("child") is None
        with pytest.raises(BlobNotFound):
            await world.store.get_blob(BLOB_NAME)

    @pytest.mark.parametrize("skew", [-1, 1])
    async def test_a_stale_or_early_ordinal_is_fenced_without_a_trace(self, world: World, skew: int) -> None:
        """Contract: a turn applies only at the run's next ordinal; any other is Fenced and leaves no trace."""
        holder = await world.held_run("r")
        await holder.commits()
        commit = await everything(holder)
        moved = msgspec.structs.replace(commit.row, ordinal=commit.row.ordinal + skew, checksum=bytes(16))
        before = await world.dump()
        assert await holder.submit(msgspec.structs.replace(commit, row=moved)) == Fenced(1, 3)
        assert await world.dump() == before
        with pytest.raises(BlobNotFound):
            await world.store.get_blob(BLOB_NAME)

    async def test_a_run_that_is_not_there_is_fenced_as_gone(self, world: World) -> None:
        """Contract: a turn of an unknown run is Fenced with epoch 0."""
        holder = await world.held_run("r")
        verdict = await holder.submit(msgspec.structs.replace(holder.turn(), no=999))
        assert isinstance(verdict, Fenced)
        assert verdict.epoch == 0

    @shows("stepflow.M7", "openworkflow.O6")
    @pytest.mark.parametrize("company", [0, 2], ids=["alone", "among others"])
    @pytest.mark.parametrize("what", ["continues", "parks", "ends"])
    async def test_an_ended_run_takes_no_further_turn(self, world: World, what: str, company: int) -> None:
        """Contract: an end is the last row: a turn that names the next place after it is Fenced, and
        status, result and journal stay as they were."""
        others = [await world.held_run(f"other{count}") for count in range(company)]
        holder = await world.held_run("r")
        events = (DONE,) if what == "ends" else (e.StepScheduled(key="late"),)
        early = holder.turn(*events, park=Park(None) if what == "parks" else None)
        await holder.commits(DONE)
        ended, rows = await world.get("r"), await world.store.history("r")
        row = chained(rows[-1].checksum, "r", rows[-1].ordinal + 1, holder.epoch, world.clock.now(), events)
        late = msgspec.structs.replace(early, row=row, after=rows[-1].checksum)
        verdict, *rest = await world.store.commit([late, *(other.turn() for other in others)])
        assert verdict == Fenced(holder.epoch, row.ordinal)
        assert [type(each).__name__ for each in rest] == ["Committed"] * company
        assert (await world.get("r"), await world.store.history("r")) == (ended, rows)

    @pytest.mark.parametrize("company", [0, 2], ids=["alone", "among others"])
    @pytest.mark.parametrize("what", ["continues", "brings something", "parks", "ends"])
    async def test_a_turn_follows_the_row_it_was_made_after(self, world: World, what: str, company: int) -> None:
        """Contract: a holder whose last rows the store has lost, in a failover or with a backup, is fenced, even if
        another worker has the same epoch and ordinal since: nothing is written into a history that it does not know."""
        others = [await world.held_run(f"other{count}") for count in range(company)]
        holder = await world.held_run("r")
        await holder.commits(STEP)
        exposed = (e.Exposed(name="p", value=msgspec.Raw(b"1")),) if what == "brings something" else ()
        turn = holder.turn(*((DONE,) if what == "ends" else exposed), park=Park(None) if what == "parks" else None)
        before = await world.get("r"), await world.store.history("r")
        elsewhere = msgspec.structs.replace(turn, after=bytes(16))
        verdict, *rest = await world.store.commit([elsewhere, *(other.turn() for other in others)])
        assert verdict == Fenced(holder.epoch, turn.row.ordinal)
        assert [type(each).__name__ for each in rest] == ["Committed"] * company
        assert (await world.get("r"), await world.store.history("r")) == before
        assert isinstance(await holder.submit(turn), Committed)

    async def test_a_fenced_turn_does_not_disturb_its_batch(self, world: World) -> None:
        """Contract: the others of its batch are committed."""
        holders = [await world.held_run(name) for name in "abc"]
        await world.store.take("b", instance="i1", steal=True)
        before = await world.get("b")
        verdicts = await world.store.commit([holder.turn(STEP) for holder in holders])
        assert [type(verdict) for verdict in verdicts] == [Committed, Fenced, Committed]
        assert [(await world.get(name)).next_ordinal for name in "abc"] == [3, 2, 3]
        assert await world.get("b") == before

    @shows("stepflow.J13")
    async def test_a_commit_sent_again_is_committed_once(self, world: World) -> None:
        """Contract: after an unknown outcome the same commit is Committed with its seq; nothing is written twice."""
        holder = await world.held_run("r")
        commit = await everything(holder)
        first = await holder.submit(commit)
        before = await world.dump()
        assert await world.store.commit([commit]) == [first]
        assert await world.dump() == before

    @pytest.mark.parametrize("moves", ["another turn", "another epoch", "both", "the end"])
    async def test_a_commit_sent_again_late_is_still_recognised(self, world: World, moves: str) -> None:
        """Contract: (run, epoch, ordinal, checksum) is the identity of a write, whatever happened to the run since."""
        holder = await world.held_run("r")
        commit = holder.turn(STEP)
        first = await holder.submit(commit)
        assert isinstance(first, Committed)
        if moves in {"another turn", "both"}:
            await holder.commits()
        if moves in {"another epoch", "both"}:
            await holder.parks(world.clock.now())
            await (await world.holder("r", instance="i2")).commits()
        if moves == "the end":
            await holder.commits(DONE)
        before = await world.dump()
        (again,) = await world.store.commit([commit])
        assert isinstance(again, Committed)
        assert again.seq == first.seq
        assert await world.dump() == before

    async def test_other_content_at_a_taken_ordinal_is_fenced(self, world: World) -> None:
        """Contract: the checksum identifies a write: a different turn at the same epoch and ordinal is Fenced."""
        holder = await world.held_run("r")
        rival = await world.reader(holder.row)
        await holder.commits(STEP)
        before = await world.dump()
        assert await rival.commit(e.StepScheduled(key="refund")) == Fenced(1, 3)
        assert await world.dump() == before

    async def test_the_same_bytes_under_another_epoch_are_another_write(self, world: World) -> None:
        """Contract: the epoch is part of a write's identity."""
        holder = await world.held_run("r")
        await holder.commits(STEP)
        stored = (await world.store.history("r"))[-1]
        forged = holder.turn()
        row = msgspec.structs.replace(stored, epoch=7, seq=0)
        assert await holder.submit(msgspec.structs.replace(forged, row=row)) == Fenced(1, 3)

    async def test_the_epoch_decides_who_commits_not_the_lease(self, world: World) -> None:
        """Contract: a lapsed holder whose run was not taken may still commit; after the next claim it may not."""
        holder = await world.held_run("r")
        world.clock.advance(TTL * 2)
        other = await world.worker("i2")
        world.store.heart("i2", TTL).beat()
        await holder.commits(STEP)
        assert await world.claimed_ids(other) == ["r"]
        assert isinstance(await holder.commit(), Fenced)

    # -- what becomes visible with a turn ------------------------------------------------------------------------------

    @shows("stem.S7", "stepflow.M7", "traps.B10", "vectorbea.V13")
    async def test_a_turn_carries_its_projection(self, world: World) -> None:
        """Contract: after every commit the row equals the fold of the journal, also when the run is given back with
        it."""
        holder = await world.held_run("r", deadline=world.clock.now() + seconds(3600), attributes={"shop": "7"})
        for events in (
            [STEP],
            [e.StepCompleted(key="charge")],
            [e.SleepStarted(key="s", until=world.clock.now())],
            [e.Continued(workflow="parcel", version="7")],
            [DONE],
        ):
            world.clock.advance(1)
            await holder.commits(*events)
            await world.verify()
        row = await world.get("r")
        assert (row.workflow, row.version) == ("parcel", "7")
        assert (row.status, row.doing, row.ended_at) == (Status.COMPLETED, b"", world.clock.now())
        assert row.started_at == row.created_at + seconds(1)
        parked, paused = await world.held_run("parked"), await world.held_run("paused")
        await parked.commits(e.WaitStarted(key="w", kind="signal", name="go"), park=Park(None))
        await paused.commits(STEP)
        await paused.commits(e.Paused(reason="operator"), park=Park(None))
        await world.verify()
        assert [(await world.get(name)).status for name in ("parked", "paused")] == [Status.RUNNING, Status.PAUSED]

    async def test_a_turn_ends_the_count_of_claims_without_progress(self, world: World) -> None:
        """Contract: a commit sets claims back to 0."""
        holder = await world.held_run("r")
        assert holder.row.claims == 1
        await holder.commits()
        assert (await world.get("r")).claims == 0

    async def test_a_verdict_tells_of_messages(self, world: World) -> None:
        """Contract: Committed carries the run's `inbox_last`."""
        holder = await world.held_run("r")
        assert (await holder.commits()).inbox_last == 0
        await world.store.send(signal("r", "m1"))
        await world.store.send(signal("r", "m2"))
        (*_, last) = await world.unread("r")
        assert (await holder.commits()).inbox_last == last.no

    async def test_blobs_come_with_the_turn(self, world: World) -> None:
        """Contract: a committed row never refers to a missing blob."""
        holder = await world.held_run("r")
        await holder.commits(e.StepScheduled(key="charge", blob=BLOB_NAME), blobs={BLOB_NAME: BLOB})
        assert await world.store.get_blob(BLOB_NAME) == BLOB

    async def test_messages_go_out_with_the_turn(self, world: World) -> None:
        """Contract: a commit's messages arrive in order, wake their targets, and count once by id."""
        holder = await world.held_run("r")
        target = await world.held_run("target")
        await target.parks()
        await world.store.send(signal("target", "m1"))
        await holder.commits(messages=(signal("target", "m1"), signal("target", "m2"), signal("target", "m3")))
        assert [message.id for message in await world.unread("target")] == ["m1", "m2", "m3"]
        assert (await world.get("target")).available_at == world.clock.now()

    async def test_messages_that_nobody_can_take_are_dropped(self, world: World) -> None:
        """Contract: a message to an ended or missing run never fails the turn."""
        await world.ended_run("over")
        before = await world.get("over")
        holder = await world.held_run("r")
        await holder.commits(messages=(signal("over", "m1"), signal("nobody", "m2")))
        assert await world.get("over") == before
        assert await world.unread("over") == []
        assert await world.store.get("nobody") is None

    async def test_a_turn_that_is_no_progress_keeps_the_count_of_claims(self, world: World) -> None:
        """Contract: a turn that only restarts what was in flight does not reset the claims without progress."""
        holder = await world.held_run("r")
        before = (await world.get("r")).claims
        assert before >= 1
        await holder.commits(e.Claimed(worker="w"), is_progress=False)
        assert (await world.get("r")).claims == before
        await holder.commits(STEP)
        assert (await world.get("r")).claims == 0
