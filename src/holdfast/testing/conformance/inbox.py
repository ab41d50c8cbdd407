"""Inbox: messages are accepted once, kept in order, wake their run, and are consumed by its turns."""

from __future__ import annotations

import asyncio
from hashlib import sha256

import msgspec
import pytest

from holdfast.core import events as e
from holdfast.core.status import Status
from holdfast.ports.inbox import Accepted, Ended, Message, Missing, Watcher
from holdfast.ports.journal import Park
from holdfast.ports.runs import Existing, Made
from holdfast.testing.conformance.suite import Suite
from holdfast.testing.conformance.world import DONE, ENDS, Holder, World, event_of, publication, seconds, signal

BLOB = b"a large signal" * 100
BLOB_NAME = sha256(BLOB).hexdigest()


async def ids(world: World, run: str) -> list[str]:
    """The ids of a run's unread messages, in order."""
    return [message.id for message in await world.unread(run)]


async def watching(world: World, run: str, *waits: tuple[str, str]) -> Holder:
    """A run that waits on topics: (topic, key) each."""
    holder = await world.held_run(run)
    await holder.commits(watch=waits, park=Park(None))
    return holder


class InboxSuite(Suite):
    """Inbox: messages are accepted once, kept in order, wake their run, and are consumed by its turns."""

    async def test_a_new_run_has_its_message_from_the_beginning(self, world: World) -> None:
        """Contract: it is made with the run or not at all, with its blobs, and does not go to a run that is there."""
        brought = msgspec.structs.replace(signal("r", "m1"), references=(BLOB_NAME,))
        new = msgspec.structs.replace(world.new("r"), message=brought, blobs=((BLOB_NAME, BLOB),))
        assert isinstance(await world.create(new), Made)
        assert await ids(world, "r") == ["m1"]
        assert (await world.get("r")).inbox_last == 1
        assert await world.store.get_blob(BLOB_NAME) == BLOB
        other = msgspec.structs.replace(world.new("r"), message=signal("r", "m2"))
        assert isinstance(await world.create(other), Existing)
        assert await ids(world, "r") == ["m1"]
        worker = await world.worker()
        assert await world.claimed_ids(worker) == ["r"]

    # -- sending -------------------------------------------------------------------------------------------------------

    async def test_messages_are_kept_in_order_of_arrival(self, world: World) -> None:
        """Contract: numbers rise in the order of arrival, and the row's `inbox_last` is the last of them."""
        await world.make("r")
        for message in ("m3", "m1", "m2"):
            assert await world.store.send(signal("r", message)) == Accepted()
        messages = await world.unread("r")
        assert [message.id for message in messages] == ["m3", "m1", "m2"]
        numbers = [message.no for message in messages]
        assert numbers == sorted(set(numbers))
        assert numbers[0] > 0
        assert (await world.get("r")).inbox_last == numbers[-1]

    @pytest.mark.parametrize("kind", ["signal", "topic", "child", "cancel", "pause"])
    async def test_a_message_is_kept_as_it_was_sent(self, world: World, kind: str) -> None:
        """Contract: kind and bytes come back unchanged."""
        await world.make("r")
        sent = msgspec.convert({"run": "r", "id": "mé", "kind": kind, "body": b'{"t":"cancel"}'}, Message)
        await world.store.send(sent)
        (message,) = await world.unread("r")
        assert (message.id, message.kind, message.body) == ("mé", kind, b'{"t":"cancel"}')

    async def test_the_same_id_counts_once(self, world: World) -> None:
        """Contract: a repeat is accepted as such and changes nothing, whatever it says; another run has its own ids."""
        await world.make("r")
        await world.make("s")
        await world.store.send(signal("r", "m1"))
        before = await world.dump()
        assert await world.store.send(signal("r", "m1", "other", b"2")) == Accepted(is_repeat=True)
        assert await world.dump() == before
        assert await world.store.send(signal("s", "m1")) == Accepted()

    async def test_a_repeat_of_a_consumed_message_is_recognised(self, world: World) -> None:
        """Contract: messages are remembered after they were consumed: a late retry does not arrive twice."""
        holder = await world.held_run("r")
        await world.store.send(signal("r", "m1"))
        (message,) = await world.unread("r")
        await holder.commits(inbox_seen=message.no, is_consuming=True)
        assert await world.store.send(signal("r", "m1")) == Accepted(is_repeat=True)
        assert await world.unread("r") == []
        await holder.commits(DONE, inbox_seen=message.no)
        assert await world.store.send(signal("r", "m1")) == Accepted(is_repeat=True)

    async def test_what_was_sent_under_an_id_is_told(self, world: World) -> None:
        """Contract: as it was sent, read or not, so that a repeat can be compared; of that run and id alone."""
        holder = await world.held_run("r")
        await world.make("s")
        await world.store.send(signal("r", "m1"))
        await world.store.send(signal("r", "m2", "other", b'"x"'))
        (first, second) = await world.unread("r")
        expected = Message(run="r", id="m1", kind="signal", body=first.body)
        assert await world.store.sent("r", "m1") == expected
        assert await world.store.sent("r", "m2") == Message(run="r", id="m2", kind="signal", body=second.body)
        for run, message in (("r", "m3"), ("s", "m1"), ("nobody", "m1")):
            assert await world.store.sent(run, message) is None
        await world.store.send(signal("r", "m1", "other", b"2"))
        await holder.commits(DONE, inbox_seen=second.no, is_consuming=True)
        assert await world.store.sent("r", "m1") == expected

    async def test_a_run_that_is_not_there_takes_no_message(self, world: World) -> None:
        """Contract: Missing, and nothing is kept for a run of that id made later."""
        assert await world.store.send(signal("r", "m1")) == Missing()
        await world.make("r")
        assert await world.unread("r") == []

    @pytest.mark.parametrize("name", list(ENDS))
    async def test_an_ended_run_refuses_messages(self, world: World, name: str) -> None:
        """Contract: Ended with its status; nothing is written."""
        end = next(end for each, end in ENDS.items() if each == name)
        await world.ended_run("r", end)
        before = await world.dump()
        assert await world.store.send(signal("r", "m1")) == Ended(Status(name))
        assert await world.dump() == before

    async def test_blobs_come_with_the_message(self, world: World) -> None:
        """Contract: an accepted message never refers to a missing blob."""
        await world.make("r")
        await world.store.send(msgspec.structs.replace(signal("r", "m1"), blobs=((BLOB_NAME, BLOB),)))
        assert await world.store.get_blob(BLOB_NAME) == BLOB

    async def test_concurrent_senders_lose_nothing(self, world: World) -> None:
        """Contract: every accepted message is there once, and each sender's are in its order."""
        await world.make("r")

        async def sender(name: str) -> None:
            for count in range(5):
                await world.store.send(signal("r", f"{name}-{count}"))

        await asyncio.gather(*(sender(name) for name in "abcd"))
        found = await ids(world, "r")
        assert len(found) == 20
        for name in "abcd":
            assert [each for each in found if each.startswith(name)] == [f"{name}-{count}" for count in range(5)]

    # -- waking --------------------------------------------------------------------------------------------------------

    async def test_a_message_never_puts_a_run_off(self, world: World) -> None:
        """Contract: `available_at` is lowered, not set: a run that is already due keeps its place."""
        row = await world.make("r")
        world.clock.advance(60)
        await world.store.send(signal("r", "m1"))
        assert (await world.get("r")).available_at == row.available_at

    async def test_a_message_to_a_held_run_leaves_it_with_its_holder(self, world: World) -> None:
        """Contract: the holder learns of it by `held`; no other worker can claim the run."""
        await world.held_run("r")
        other = await world.worker("i2")
        await world.store.send(signal("r", "m1"))
        (message,) = await world.unread("r")
        assert (await world.store.held("i1"))["r"].inbox_last == message.no
        assert (await world.claim(other)).runs == []
        assert (await world.get("r")).epoch == 1

    async def test_a_paused_run_takes_messages_and_stays_paused(self, world: World) -> None:
        """Contract: the message is kept for later; the run is not claimed for it."""
        holder = await world.held_run("r")
        await holder.commits(e.Paused(reason="operator"), park=Park(None))
        assert await world.store.send(signal("r", "m1")) == Accepted()
        assert (await world.claim(world.workers["i1"])).runs == []
        assert await ids(world, "r") == ["m1"]

    # -- reading and consuming -----------------------------------------------------------------------------------------

    async def test_unread_is_asked_for_several_runs_at_once(self, world: World) -> None:
        """Contract: for each run, messages with a greater number than the one given; other runs are not looked at."""
        rows = {name: await world.make(name) for name in "abc"}
        for name in "abc":
            for count in range(3):
                await world.store.send(signal(name, f"{name}{count}"))
        first = (await world.unread("a"))[0].no
        last = (await world.unread("b"))[-1].no
        found = await world.store.unread({rows["a"].no: first, rows["b"].no: last, 999: 0})
        assert [message.id for message in found[rows["a"].no]] == ["a1", "a2"]
        assert list(found.get(rows["b"].no, [])) == []
        assert list(found.get(999, [])) == []
        assert rows["c"].no not in found

    async def test_a_turn_consumes_what_it_has_seen(self, world: World) -> None:
        """Contract: with `is_consuming`, messages up to `inbox_seen` are consumed; later ones stay."""
        holder = await world.held_run("r")
        for message in ("m1", "m2", "m3"):
            await world.store.send(signal("r", message))
        second = (await world.unread("r"))[1].no
        await holder.commits(inbox_seen=second, is_consuming=True)
        assert await ids(world, "r") == ["m3"]
        assert (await world.get("r")).inbox_read == second

    async def test_a_turn_that_only_saw_messages_consumes_none(self, world: World) -> None:
        """Contract: `inbox_seen` alone marks nothing."""
        holder = await world.held_run("r")
        await world.store.send(signal("r", "m1"))
        (message,) = await world.unread("r")
        await holder.commits(inbox_seen=message.no)
        assert await ids(world, "r") == ["m1"]
        assert (await world.get("r")).inbox_read == 0

    async def test_one_run_consumes_only_its_own(self, world: World) -> None:
        """Contract: consuming touches no other run's messages."""
        holder = await world.held_run("a")
        await world.make("b")
        for name in ("b", "a", "b"):
            await world.store.send(signal(name, f"m-{name}"))
            await world.store.send(signal(name, f"n-{name}"))
        await holder.commits(inbox_seen=(await world.unread("a"))[-1].no, is_consuming=True)
        assert await ids(world, "a") == []
        assert await ids(world, "b") == ["m-b", "n-b"]

    # -- topics --------------------------------------------------------------------------------------------------------

    async def test_watchers_are_known(self, world: World) -> None:
        """Contract: lists the runs that wait on the topic now, with key and time; other topics are separate."""
        await watching(world, "a", ("news", "k1"))
        world.clock.advance(5)
        await watching(world, "b", ("news", "k1"), ("weather", "k2"))
        since = world.clock.now()
        assert sorted(await world.store.watchers("news"), key=lambda watcher: watcher.run) == [
            Watcher("a", "k1", since - seconds(5)),
            Watcher("b", "k1", since),
        ]
        assert list(await world.store.watchers("weather")) == [Watcher("b", "k2", since)]
        assert list(await world.store.watchers("sports")) == []

    async def test_a_publication_reaches_every_watcher_with_its_key(self, world: World) -> None:
        """Contract: each watcher gets the event with its own key filled in, and is available now."""
        await watching(world, "a", ("news", "k1"))
        await watching(world, "b", ("news", "k2"))
        await watching(world, "c", ("weather", "k3"))
        world.clock.advance(5)
        reached = await world.store.publish(publication("news", "p1", b'{"big":12345678901234567890,"n":1.50}'))
        assert sorted(reached) == ["a", "b"]
        for run, key in (("a", "k1"), ("b", "k2")):
            (message,) = await world.unread(run)
            event = event_of(message)
            assert message.kind == "topic"
            assert isinstance(event, e.TopicReceived)
            assert (event.key, event.message, event.name) == (key, "p1", "news")
            assert bytes(event.value) == b'{"big":12345678901234567890,"n":1.50}'
            assert (await world.get(run)).available_at == world.clock.now()
        assert await world.unread("c") == []

    async def test_a_publication_reaches_only_those_who_watch_now(self, world: World) -> None:
        """Contract: publications are not kept for later watchers."""
        assert list(await world.store.publish(publication("news", "early"))) == []
        holder = await watching(world, "a", ("news", "k1"), ("weather", "k2"))
        await world.store.publish(publication("news", "now"))
        holder = await world.holder("a")
        (message,) = await world.unread("a")
        await holder.commits(unwatch=("k1",), inbox_seen=message.no, is_consuming=True)
        assert list(await world.store.publish(publication("news", "late"))) == []
        assert await world.unread("a") == []
        assert [watcher.key for watcher in await world.store.watchers("weather")] == ["k2"]

    async def test_a_publication_counts_once_by_id(self, world: World) -> None:
        """Contract: publishing the same id again reaches no run twice, and reaches those that came since."""
        await watching(world, "a", ("news", "k1"))
        await world.store.publish(publication("news", "p1"))
        before = await world.get("a")
        await watching(world, "b", ("news", "k1"))
        await world.store.publish(publication("news", "p1"))
        assert await world.get("a") == before
        assert len(await world.unread("a")) == 1
        assert len(await world.unread("b")) == 1
        await world.store.publish(publication("news", "p2"))
        assert [event_of(message).message for message in await world.unread("a")] == ["p1", "p2"]

    async def test_what_was_published_under_an_id_is_told(self, world: World) -> None:
        """Contract: what one of the runs that wait on the topic was sent; another topic or id has nothing, nor has a
        wait that has ended."""
        await watching(world, "a", ("weather", "k1"))
        await watching(world, "b", ("news", "k2"))
        await world.store.publish(publication("news", "p1"))
        await watching(world, "c", ("news", "k3"))
        (message,) = await world.unread("b")
        expected = Message(run="b", id="p1/k2", kind="topic", body=message.body)
        assert await world.store.published("news", "p1") == expected
        for topic, name in (("news", "p"), ("news", "p2"), ("weather", "p1"), ("sports", "p1")):
            assert await world.store.published(topic, name) is None
        holder = await world.holder("b")
        await holder.commits(unwatch=("k2",), inbox_seen=message.no, is_consuming=True)
        assert await world.store.published("news", "p1") is None

    async def test_two_waits_of_one_run_both_get_the_publication(self, world: World) -> None:
        """Contract: a watcher is a wait, not a run: each key has its message; the run is named once."""
        await watching(world, "a", ("news", "k1"), ("news", "k2"))
        assert list(await world.store.publish(publication("news", "p1"))) == ["a"]
        assert [event_of(message).key for message in await world.unread("a")] == ["k1", "k2"]

    async def test_publications_go_out_with_a_turn(self, world: World) -> None:
        """Contract: a commit's publications reach the watchers there are, with their blobs, not its own new waits."""
        await watching(world, "a", ("news", "k1"))
        holder = await world.held_run("r")
        await holder.commits(
            publications=(publication("news", "p1", blobs=((BLOB_NAME, BLOB),)), publication("sports", "p2")),
            watch=(("news", "own"),),
        )
        assert [event_of(message).key for message in await world.unread("a")] == ["k1"]
        assert await world.unread("r") == []
        assert await world.store.get_blob(BLOB_NAME) == BLOB

    async def test_watching_under_a_key_again_replaces_it(self, world: World) -> None:
        """Contract: a key is one wait; watching again moves it."""
        holder = await world.held_run("r")
        await holder.commits(watch=(("news", "k1"),))
        await holder.commits(watch=(("weather", "k1"),))
        assert list(await world.store.watchers("news")) == []
        assert [watcher.key for watcher in await world.store.watchers("weather")] == ["k1"]

    async def test_unwatching_touches_no_other_run(self, world: World) -> None:
        """Contract: keys belong to their run."""
        await watching(world, "a", ("news", "k1"))
        holder = await world.held_run("b")
        await holder.commits(watch=(("news", "k1"),))
        await holder.commits(unwatch=("k1", "unknown"))
        assert [watcher.run for watcher in await world.store.watchers("news")] == ["a"]
