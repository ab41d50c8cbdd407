"""Taking values out of ended runs: `Upkeep.rewrite`, with what a client makes of a run."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from holdfast.client.kept_contents import read_contents
from holdfast.core import events as e
from holdfast.core.erasure import Erasure
from holdfast.core.payload import hash_of
from holdfast.core.redacted import MARK, Redacted
from holdfast.core.snapshot import advance, stand_in, to_snapshot
from holdfast.core.turn import decode_row
from holdfast.ports.inbox import Accepted
from holdfast.ports.parts import unpack
from holdfast.ports.rewritten import Rewritten
from holdfast.ports.runs import Filter, Made
from holdfast.ports.updates import UpdateAnswer
from holdfast.testing.conformance.streams import flush
from holdfast.testing.conformance.suite import Suite
from holdfast.testing.conformance.updates import update
from holdfast.testing.conformance.world import DONE, Holder, World, signal

MAIL = "bob@example.org"
RAW = msgspec.Raw(f'"{MAIL}"'.encode())
LARGE = f'"{MAIL} {"x" * 200_000}"'.encode()
GRACE = timedelta(days=1)


async def without(world: World, run: str, *paths: str) -> Rewritten:
    """What a client makes of the run."""
    kept = await read_contents(world.store, await world.get(run))
    erasure = Erasure(paths)
    kept.teach(erasure)
    assert not erasure.missing
    return kept.without(erasure, Redacted(paths=paths, at=world.clock.now(), actor="amy"))


async def ended(world: World, run: str = "r") -> Holder:
    """An ended run that has the secret in every place there is."""
    args = msgspec.Raw(b'{"mail":%b}' % bytes(RAW))
    attributes = {"mail": MAIL, "tier": "gold"}
    holder = await world.held_run(run, value=args, attributes=attributes, input_hash="h", unique=f"u-{run}")
    assert await world.store.send(signal(run, "m1", "go", bytes(RAW))) == Accepted()
    assert await world.store.send(update(run, "q1", b"hash", bytes(RAW))) == Accepted()
    taken = [
        e.SignalReceived(message="m1", name="go", value=RAW),
        e.UpdateReceived(message="q1", name="ask", value=RAW),
    ]
    answered = (UpdateAnswer("q1", "answered", bytes(RAW)),)
    answer = e.Answered(message="q1", value=RAW)
    await holder.commits(*taken, answer, inbox_seen=2, is_consuming=True, answers=answered)
    await holder.commits(e.StepCompleted(key="big", blob=hash_of(LARGE)), blobs={hash_of(LARGE): LARGE})
    await world.store.append([flush(holder, 0, f"to {MAIL}", "plain")])
    await holder.commits(e.Exposed(name="shown", value=RAW))
    await holder.commits(DONE, inbox_seen=2)
    return holder


class RedactionSuite(Suite):
    """What is rewritten is as the client says, and nothing of what was there is left."""

    async def test_nothing_of_it_is_left(self, world: World) -> None:
        """Contract: rows, messages, answers, values, attributes, parts and blobs have the new contents; the journal is
        chained, in its old order; another run keeps its own."""
        await ended(world)
        await ended(world, "other")
        other = await world.store.history("other")
        before = await world.store.history("r")
        assert await world.store.rewrite(await without(world, "r", "input.mail"))
        after = await world.store.history("r")
        assert [(x.ordinal, x.epoch, x.at, x.seq) for x in after] == [(x.ordinal, x.epoch, x.at, x.seq) for x in before]
        kept = await read_contents(world.store, await world.get("r"))
        assert MAIL not in str(msgspec.json.encode((kept.row, kept.rows, kept.contents, kept.parts)))
        assert all(MAIL.encode() not in row.body for row in after)
        assert all(MAIL.encode() not in message.body for message in kept.contents.messages)
        assert [bytes(x) for x in unpack(kept.parts[0][1].packed)] == [f'"to {MARK}"'.encode(), b'"plain"']
        assert await world.store.exposed("r", "shown") == (f'"{MARK}"'.encode(), "")
        question = await world.store.question("r", "q1")
        assert question is not None
        assert question.answer is not None
        assert question.answer.value == f'"{MARK}"'.encode()
        assert (kept.row.attributes, kept.row.input_hash) == ({"mail": MARK, "tier": "gold"}, "")
        found = await world.store.list(Filter(attributes={"mail": MAIL}))
        assert [row.id for row in found.runs] == ["other"]
        assert decode_row(after[-1]).events[-2:] == (
            Redacted(paths=("input.mail",), at=world.clock.now(), actor="amy"),
            DONE,
        )
        assert await world.store.history("other") == other
        await world.verify()

    async def test_a_blob_goes_with_its_last_reference(self, world: World) -> None:
        """Contract: the grace of the old one begins with the rewriting, however old it is; the new one stays."""
        await ended(world)
        world.clock.advance(GRACE * 2)
        new = await without(world, "r", "input.mail")
        [made] = new.blobs
        assert await world.store.rewrite(new)
        await world.store.collect(GRACE)
        assert await world.store.known_blobs([hash_of(LARGE), made]) == {hash_of(LARGE), made}
        world.clock.advance(GRACE * 2)
        await world.store.collect(GRACE)
        assert await world.store.known_blobs([hash_of(LARGE), made]) == {made}

    async def test_a_blob_of_another_run_stays(self, world: World) -> None:
        """Contract: rewriting one run takes nothing from another."""
        await ended(world)
        other = await world.held_run("other")
        await other.commits(e.StepCompleted(key="s", blob=hash_of(LARGE)), blobs={hash_of(LARGE): LARGE})
        assert await world.store.rewrite(await without(world, "r", "input.mail"))
        world.clock.advance(GRACE * 2)
        await world.store.collect(GRACE)
        assert await world.store.known_blobs([hash_of(LARGE)]) == {hash_of(LARGE)}

    async def test_a_compacted_journal_is_rewritten(self, world: World) -> None:
        """Contract: its stand-in has new segments, the snapshot goes, and the unique value is free."""
        holder = await ended(world)
        past, blobs = advance("r", None, holder.turns[:4])
        row = (await world.store.history("r"))[3]
        assert await world.put_snapshot(holder.no, to_snapshot(past, 4, row.checksum), blobs)
        assert await world.compact(holder.no, stand_in(past, row)) == 3
        assert list(await world.store.snapshots([holder.no])) == [holder.no]
        new = await without(world, "r", "input.mail")
        assert await world.store.rewrite(new)
        world.clock.advance(GRACE * 2)
        await world.store.collect(GRACE)
        assert await world.store.known_blobs(list(new.segments)) == set(new.segments)
        assert dict(await world.store.snapshots([holder.no])) == {}
        kept = await read_contents(world.store, await world.get("r"))
        events = [event for turn in (*kept.condensed, *kept.turns) for event in turn.events]
        assert MAIL not in msgspec.json.encode(events).decode()
        assert isinstance(await world.create(world.new("r2", unique="u-r")), Made)
        await world.verify()

    async def test_an_unread_message_is_rewritten(self, world: World) -> None:
        """Contract: it stays in the inbox, without the value."""
        await ended(world)
        holder = await world.held_run("s")
        assert await world.store.send(signal("s", "m1", "go", bytes(RAW))) == Accepted()
        killed = e.Cancelled(reason="killed", imposed=True)
        await holder.commits(killed, inbox_seen=1)
        assert await world.store.rewrite(await without(world, "s", "signals.go"))
        kept = await read_contents(world.store, await world.get("s"))
        assert [message.no for message, _ in kept.unread] == [1]
        assert MAIL.encode() not in kept.contents.messages[0].body
        await world.verify()

    @pytest.mark.parametrize("what", ["open", "row", "message", "rows", "twice", "run"])
    async def test_what_has_changed_since_is_not_rewritten(self, world: World, what: str) -> None:
        """Contract: False and no trace, if the run is open, or has another newest row, last message, or rows."""
        await ended(world)
        new = await without(world, "r", "input.mail")
        match what:
            case "open":
                holder = await world.held_run("open")
                await holder.commits(e.StepCompleted(key="s", value=RAW))
                rows = await world.store.history("open")
                new = msgspec.structs.replace(new, no=holder.no, rows=rows, after=rows[-1].checksum, inbox_last=0)
            case "row":
                new = msgspec.structs.replace(new, after=bytes(16))
            case "message":
                new = msgspec.structs.replace(new, inbox_last=new.inbox_last + 1)
            case "rows":
                new = msgspec.structs.replace(new, rows=new.rows[1:])
            case "twice":
                assert await world.store.rewrite(new)
            case _:
                new = msgspec.structs.replace(new, no=999_999)
        before = await world.dump()
        assert not await world.store.rewrite(new)
        assert await world.dump() == before
