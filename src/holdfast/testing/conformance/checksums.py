"""Checksums: everything outside the journal is stored with one, and a damaged message can be replaced."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core import events as e
from holdfast.core.checksums import message_checksum, shown_checksum
from holdfast.ports.contents import Contents
from holdfast.ports.inbox import Accepted, Ended, Message, Missing, Unconsumed
from holdfast.ports.journal import Park
from holdfast.testing.conformance.children import start
from holdfast.testing.conformance.inbox import watching
from holdfast.testing.conformance.snapshots import stand_in_for
from holdfast.testing.conformance.suite import Suite
from holdfast.testing.conformance.world import DONE, World, publication, signal

ODD = 'order "é"\\\t✓'
"""A name that is longer in bytes than in characters, and is escaped in JSON."""


async def contents(world: World, run: str) -> Contents:
    """The contents of a run, which must exist."""
    found = await world.store.contents((await world.get(run)).no)
    assert found is not None
    return found


def holds(run: str, message: Unconsumed) -> bool:
    """Whether the stored checksum is that of the message."""
    return message.checksum == message_checksum(run, message.id, message.kind, message.body)


def instead(run: str, name: str = "instead") -> Message:
    """A message that replaces another."""
    event = e.MessageDropped(number=1, reason="damaged")
    return Message(run=run, id=name, kind="dropped", body=msgspec.json.encode(event))


class ChecksumsSuite(Suite):
    """Checksums: everything outside the journal is stored with one."""

    async def test_a_message_is_stored_with_its_checksum(self, world: World) -> None:
        """Contract: it covers run, id, kind and body exactly as sent, large or empty, with any characters."""
        await world.make(ODD)
        for number, value in enumerate((b"1", b'"%b"' % ODD[6:7].encode(), b'"%b"' % (b"x" * 5000))):
            await world.store.send(signal(ODD, f"{ODD}{number}", ODD, value))
        messages = await world.unread(ODD)
        assert len(messages) == 3
        assert all(holds(ODD, message) for message in messages)

    async def test_a_publication_s_messages_have_checksums(self, world: World) -> None:
        """Contract: they are of what each watcher is sent, with its key filled in."""
        await watching(world, "a", ("news", "k1"), ("news", ODD))
        await watching(world, ODD, ("news", "k"))
        await world.store.publish(publication("news", "p1", b'"\xc3\xa9"'))
        await (await world.held_run("r")).commits(publications=(publication("news", ODD),))
        for run in ("a", ODD):
            messages = await world.unread(run)
            assert len(messages) == (4 if run == "a" else 2)
            assert all(holds(run, message) for message in messages)

    async def test_what_turns_send_has_checksums(self, world: World) -> None:
        """Contract: messages of a turn have one too, and the ends of children that were created, adopted, or had
        already ended."""
        await world.make("target")
        sender = await world.held_run("sender")
        await sender.commits(messages=(signal("target", "m"),))
        child = await world.held_run("child", workflow="parcel")
        await world.ended_run("over", workflow="parcel")
        await world.make("taken", workflow="order")
        parent = await world.held_run("parent")
        for key, run in (("a", "child"), ("b", "over"), ("c", "taken")):
            await start(parent, run, key)
        await child.commits(DONE)
        told = await world.unread("parent")
        assert len(told) == 3
        assert all(holds("parent", message) for message in told)
        assert all(holds("target", message) for message in await world.unread("target"))

    async def test_a_shown_value_is_stored_with_its_checksum(self, world: World) -> None:
        """Contract: the last value of a name is stored with its checksum."""
        holder = await world.held_run("r")
        await holder.commits(e.Exposed(name="p", value=msgspec.Raw(b"1")), e.Exposed(name=ODD, blob="ab" * 32))
        await holder.commits(e.Exposed(name="p", value=msgspec.Raw(b"2")))
        shown = (await contents(world, "r")).shown
        assert {(x.name, x.value, x.blob) for x in shown} == {("p", b"2", ""), (ODD, b"null", "ab" * 32)}
        assert all(x.checksum == shown_checksum("r", x.name, x.value, x.blob) for x in shown)

    async def test_messages_that_lost_their_bodies_still_hold(self, world: World) -> None:
        """Contract: compaction empties consumed messages, so what they said cannot be told; the checksums still cover
        their ids."""
        holder = await world.held_run("r")
        await world.store.send(signal("r", "m1"))
        event = e.SignalReceived(message="m1", name="go", value=msgspec.Raw(b"1"))
        await holder.commits(event, inbox_seen=1, is_consuming=True)
        await world.store.send(signal("r", "m2"))
        await holder.commits()
        await world.compact(holder.no, await stand_in_for(world, "r", 2))
        assert await world.store.sent("r", "m1") is None
        kept = (await contents(world, "r")).messages
        assert [(x.no, x.id, x.consumed, bool(x.body)) for x in kept] == [(1, "m1", 2, False), (2, "m2", 0, True)]
        assert all(x.checksum == message_checksum("r", x.id, x.kind, x.body) for x in kept)

    # -- contents ------------------------------------------------------------------------------------------------------

    async def test_contents_are_all_that_is_kept_of_a_run(self, world: World) -> None:
        """Contract: messages with their consumption, watches, who adopted it, how long it is kept, its references."""
        blob = await world.store.put_blob(b"large" * 50)
        child = await world.held_run("child", workflow="parcel", blob=blob)
        await child.commits(watch=(("news", "k"),), park=Park(None))
        await start(await world.held_run("aunt"), "child", "a")
        await world.store.send(signal("child", "m1"))
        found = await contents(world, "child")
        assert [topic[:2] for topic in found.watches] == [("news", "k")]
        assert [x[:2] for x in found.adoptions] == [("aunt", "a")]
        assert found.references == {blob}
        assert (found.keep, found.snapshot, found.problems, found.is_offered) == (None, None, (), True)
        assert [(x.no, x.id, x.consumed) for x in found.messages] == [(1, "m1", 0)]
        assert await world.store.contents(999) is None

    async def test_only_what_may_be_claimed_is_offered(self, world: World) -> None:
        """Contract: runs that are held, paused, ended, or wait only for a message are not offered."""
        await world.make("pending")
        await world.held_run("held")
        await (await world.held_run("waits")).commits(park=Park(None))
        await (await world.held_run("sleeps")).commits(park=Park(world.clock.now()))
        await (await world.held_run("paused")).commits(e.Paused(reason="operator"), park=Park(world.clock.now()))
        await world.ended_run("over")
        offered = {run.id for run in await world.runs() if (await contents(world, run.id)).is_offered}
        assert offered == {"pending", "sleeps"}

    # -- replacing -----------------------------------------------------------------------------------------------------

    async def test_a_message_is_replaced_in_its_place(self, world: World) -> None:
        """Contract: the number and the other messages stay; the run is woken; the replaced id may be sent again."""
        holder = await world.held_run("r")
        await holder.parks()
        for message in ("m1", "m2", "m3"):
            await world.store.send(signal("r", message))
        worker = world.workers["i1"]
        assert await world.claimed_ids(worker) == ["r"]
        await (await world.reader(await world.get("r"))).commits(park=Park(None), inbox_seen=3)
        assert await world.claimed_ids(worker) == []
        assert await world.store.replace(instead("r"), 2) == Accepted()
        messages = await world.unread("r")
        assert [(x.no, x.id, x.kind) for x in messages] == [
            (1, "m1", "signal"),
            (2, "instead", "dropped"),
            (3, "m3", "signal"),
        ]
        assert all(holds("r", message) for message in messages)
        assert (await world.get("r")).inbox_last == 3
        assert await world.claimed_ids(worker) == ["r"]
        assert await world.store.send(signal("r", "m2")) == Accepted()

    @pytest.mark.parametrize("number", [0, 1, 4])
    async def test_only_what_is_unread_is_replaced(self, world: World, number: int) -> None:
        """Contract: messages that were taken in, and unassigned numbers, do not change."""
        holder = await world.held_run("r")
        for message in ("m1", "m2", "m3"):
            await world.store.send(signal("r", message))
        await holder.commits(inbox_seen=1, is_consuming=True)
        before = await world.dump()
        assert await world.store.replace(instead("r"), number) == Accepted(is_repeat=True)
        assert await world.dump() == before

    async def test_nothing_is_replaced_in_a_run_that_is_over(self, world: World) -> None:
        row = await world.ended_run("r")
        assert await world.store.replace(instead("r"), 1) == Ended(row.status)
        assert await world.store.replace(instead("nobody"), 1) == Missing()
