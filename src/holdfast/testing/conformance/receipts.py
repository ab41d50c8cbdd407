"""Receipts: a signal that a turn sends arrives, or the sender's own inbox says why not, in the same transaction."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core import events as e
from holdfast.core.messages import encode_event
from holdfast.core.redacted import MARK
from holdfast.ports.inbox import Message, message
from holdfast.ports.journal import Committed, Fenced, Park
from holdfast.ports.runs import Made
from holdfast.testing.conformance.runs import first_turn
from holdfast.testing.conformance.suite import Suite
from holdfast.testing.conformance.updates import update
from holdfast.testing.conformance.world import DONE, ENDS, EndName, World, event_of, seconds, signal


def asked(to: str, id: str = "m1", name: str = "go", value: bytes = b"1", *, key: str = "") -> Message:
    """A signal whose sender wants to know if it cannot be delivered."""
    reply = encode_event(e.SendSettled(key=key or id, ordinal=7, to=to, name=name))
    return msgspec.structs.replace(signal(to, id, name, value), reply=reply)


async def told(world: World, run: str) -> list[tuple[str, str, str]]:
    """What a run is told about its signals: the key of each, its receiver, and the reason."""
    found = [(message, event_of(message)) for message in await world.unread(run) if message.kind == "undelivered"]
    assert all((message.id, event.ordinal) == (f"undelivered 7:{event.key}", 7) for message, event in found)
    return [(event.key, event.to, event.status) for _, event in found]


class ReceiptsSuite(Suite):
    """Receipts of signals that turns send."""

    @pytest.mark.parametrize("ended", list(ENDS))
    async def test_the_sender_is_told_that_the_run_has_ended(self, world: World, ended: EndName) -> None:
        """Contract: with the status it ended in; the verdict shows that there is something unread."""
        await world.ended_run("gone", ENDS[ended])
        holder = await world.held_run("r")
        verdict = await holder.commits(e.StepScheduled(key="a"), messages=(asked("gone"),))
        assert await told(world, "r") == [("m1", "gone", ended)]
        (message,) = await world.unread("r")
        assert verdict.inbox_last == message.no == (await world.get("r")).inbox_last
        assert await world.unread("gone") == []
        await world.verify()

    async def test_the_sender_is_told_that_there_is_no_such_run(self, world: World) -> None:
        """Contract: each signal by itself; one that arrives, and one without a receipt, is not told of."""
        await world.make("there")
        holder = await world.held_run("r")
        sent = (asked("nowhere"), asked("there", "m2"), signal("nowhere", "m3"), asked("nowhere", "m4"))
        verdict = await holder.commits(messages=sent)
        assert await told(world, "r") == [
            ("m1", "nowhere", "missing"),
            ("m4", "nowhere", "missing"),
        ]
        assert [message.id for message in await world.unread("there")] == ["m2"]
        assert verdict.inbox_last == 2

    async def test_the_sender_is_told_that_another_message_has_the_id(self, world: World) -> None:
        """Contract: of another kind, name or value, sent before or with the same turn, also to a run that has ended;
        the receiver keeps the first. Each is told under its key."""
        await world.make("there")
        await world.store.send(signal("there", "m1"))
        await world.store.send(signal("there", "m2", "stop"))
        await world.store.send(update("there", "m3", value=b"1"))
        await world.make("gone")
        await world.store.send(signal("gone", "m1"))
        await (await world.holder("gone")).commits(DONE, inbox_seen=1, is_consuming=True)
        holder = await world.held_run("r")
        sent = (
            asked("there", "m1", value=b"1.0", key="value"),
            asked("there", "m2", key="name"),
            asked("there", "m3", key="kind"),
            asked("there", "m4", value=b'{"a":[1,null]}', key="first"),
            asked("there", "m4", value=b'{"a":[1,0]}', key="in one turn"),
            asked("gone", "m1", value=b"2", key="ended"),
        )
        await holder.commits(messages=sent)
        lost = [("value", "there"), ("name", "there"), ("kind", "there"), ("in one turn", "there"), ("ended", "gone")]
        assert await told(world, "r") == [(key, to, "conflict") for key, to in lost]
        kept = [(message.id, message.kind) for message in await world.unread("there")]
        assert kept == [("m1", "signal"), ("m2", "signal"), ("m3", "update"), ("m4", "signal")]
        await world.verify()

    @pytest.mark.parametrize("value", [b"null", b'{"a": [1, "\\u0000 \xc3\xa9"]}'], ids=["null", "deep"])
    async def test_the_same_message_again_is_delivered(self, world: World, value: bytes) -> None:
        """Contract: the sender and the trace make no difference; it counts once, and nobody is told."""
        await world.make("there")
        first = e.SignalReceived(message="m1", name="go", sender="ann", trace="00-1", value=msgspec.Raw(value))
        await world.store.send(message("there", "m1", "signal", first))
        holder = await world.held_run("r")
        await holder.commits(messages=(asked("there", "m1", value=value), asked("there", "m1", value=value, key="2")))
        assert await told(world, "r") == []
        assert len(await world.unread("there")) == 1

    @pytest.mark.parametrize("changed", ["replaced", "redacted"])
    async def test_what_a_person_changed_cannot_be_compared(self, world: World, changed: str) -> None:
        """Contract: it counts as the same."""
        await world.make("there")
        value = msgspec.Raw(b"5" if changed == "replaced" else msgspec.json.encode([MARK]))
        by = "ann" if changed == "replaced" else ""
        kept = e.SignalReceived(message="m1", name="go", value=value, replaced_by=by)
        await world.store.send(message("there", "m1", "signal", kept))
        holder = await world.held_run("r")
        await holder.commits(messages=(asked("there"),))
        assert await told(world, "r") == []

    async def test_what_is_delivered_leaves_nothing(self, world: World) -> None:
        """Contract: to a paused run, to a child made with the same turn, to itself: delivered, and no receipt."""
        holder = await world.held_run("paused")
        await holder.commits(e.Paused(reason="operator"), park=Park(None))
        holder = await world.held_run("r")
        sent = (asked("paused"), asked("c"), asked("r", "m2"))
        await holder.commits(messages=sent, children=(holder.child("c", "k"),))
        assert await told(world, "r") == []
        assert [message.id for message in await world.unread("r")] == ["m2"]
        assert [message.id for message in await world.unread("c")] == ["m1"]
        assert [message.id for message in await world.unread("paused")] == ["m1"]

    async def test_a_sender_that_parks_is_due_at_once(self, world: World) -> None:
        """Contract: as with any message that comes while a run is given back."""
        holder = await world.held_run("r")
        await holder.commits(messages=(asked("nowhere"),), park=Park(world.clock.now() + seconds(60)))
        assert (await world.get("r")).available_at == world.clock.now()
        again = await world.holder("r")
        assert again.row.inbox_last == 1

    async def test_a_sender_that_ends_keeps_what_it_was_told(self, world: World) -> None:
        """Contract: nothing reads it, but the verdict shows it, and the run is not woken; also for signals to
        itself."""
        holder = await world.held_run("r")
        verdict = await holder.commits(DONE, messages=(asked("nowhere"), asked("r", "m2")))
        assert verdict.inbox_last == 2
        assert await told(world, "r") == [
            ("m1", "nowhere", "missing"),
            ("m2", "r", "completed"),
        ]
        row = await world.get("r")
        assert (row.available_at, row.instance) == (None, "")
        assert await world.claimed_ids(world.workers["i1"]) == []
        await world.verify()

    async def test_the_same_turn_again_tells_once(self, world: World) -> None:
        """Contract: a commit is sent again after a lost answer: the receipt is there once, and seen in the verdict."""
        holder = await world.held_run("r")
        turn = holder.turn(e.StepScheduled(key="a"), messages=(asked("nowhere"),))
        first = await holder.submit(turn)
        assert await holder.submit(turn) == first == Committed((await world.store.history("r"))[-1].seq, 1)
        assert len(await told(world, "r")) == 1

    async def test_a_refused_turn_tells_nothing(self, world: World) -> None:
        """Contract: what is fenced leaves no trace, receipts included."""
        holder = await world.held_run("r")
        await world.store.take("r", instance="i2", steal=True)
        before = await world.dump()
        assert isinstance(await holder.commit(messages=(asked("nowhere"),)), Fenced)
        assert await world.dump() == before

    async def test_turns_that_share_a_transaction(self, world: World) -> None:
        """Contract: in the order of the batch: what follows the end of its target is told, what precedes it refuses the
        end."""
        first, second, ending = [await world.held_run(run) for run in ("a", "b", "gone")]
        late, early = first.turn(messages=(asked("gone"),)), second.turn(messages=(asked("nowhere", "m2"),))
        verdicts = await world.store.commit([early, ending.turn(DONE), late])
        assert all(isinstance(verdict, Committed) for verdict in verdicts), verdicts
        assert await told(world, "a") == [("m1", "gone", "completed")]
        assert await told(world, "b") == [("m2", "nowhere", "missing")]

    async def test_a_first_turn_tells_too(self, world: World) -> None:
        """Contract: a run that is made and begun at once learns of it like any other."""
        await world.worker("i1")
        new = world.new("r")
        first = first_turn(world, new, e.StepScheduled(key="a"), messages=(asked("nowhere"),))
        made = await world.create(new, instance="i1", worker="w1", first=first)
        assert isinstance(made, Made)
        assert made.first is not None
        assert made.first.inbox_last == 1
        assert await told(world, "r") == [("m1", "nowhere", "missing")]
