"""Updates and attributes: questions to runs and their outcomes, and the attributes of runs."""

from __future__ import annotations

from hashlib import sha256

import msgspec
import pytest

from holdfast.core import events as e
from holdfast.ports import inbox
from holdfast.ports.inbox import Accepted, Ended, Message
from holdfast.ports.journal import Fenced, Unread
from holdfast.ports.runs import Filter
from holdfast.ports.updates import Question, UpdateAnswer
from holdfast.testing.conformance.suite import Suite
from holdfast.testing.conformance.world import DONE, Holder, World

LARGE = b'"' + b"x" * 100_000 + b'"'
LARGE_NAME = sha256(LARGE).hexdigest()


def update(run: str, id: str, asks: bytes = b"hash", value: bytes = b"1") -> Message:
    """A question to a run."""
    event = e.UpdateReceived(message=id, name="ask", value=msgspec.Raw(value))
    return inbox.message(run, id, "update", event, asks=asks)


class UpdatesSuite(Suite):
    """What a store must do for callers that ask a run, and for callers that search runs by attributes."""

    # -- asking --------------------------------------------------------------------------------------------------------

    async def test_a_question_comes_with_its_message(self, world: World) -> None:
        """Contract: it is open from the moment its message is accepted; a signal asks nothing."""
        await world.make("r")
        assert await world.store.send(update("r", "q1")) == Accepted()
        assert await world.store.question("r", "q1") == Question("q1", b"hash")
        assert [message.kind for message in await world.unread("r")] == ["update"]
        for run, message in (("r", "q2"), ("s", "q1")):
            assert await world.store.question(run, message) is None

    async def test_the_first_value_of_a_question_stays(self, world: World) -> None:
        """Contract: the same id again is a repeat; what was asked first is what is remembered."""
        await world.make("r")
        await world.store.send(update("r", "q1"))
        before = await world.dump()
        assert await world.store.send(update("r", "q1", b"different", b"2")) == Accepted(is_repeat=True)
        assert await world.store.question("r", "q1") == Question("q1", b"hash")
        assert await world.dump() == before

    async def test_a_question_whose_message_was_dropped_is_known(self, world: World) -> None:
        """Contract: replacing its message does not change the question."""
        await world.make("r")
        await world.store.send(update("r", "q1"))
        dropped = e.MessageDropped(number=1, message="q1", asked=True)
        assert await world.store.replace(inbox.message("r", "d", "dropped", dropped), 1) == Accepted()
        assert await world.store.send(update("r", "q1")) == Accepted(is_repeat=True)
        assert await world.store.question("r", "q1") == Question("q1", b"hash")

    async def test_an_ended_run_is_asked_nothing(self, world: World) -> None:
        """Contract: the answer is Ended, and no question is stored; an earlier question is still known, with its
        answer."""
        holder = await world.held_run("r")
        await world.store.send(update("r", "q1"))
        answer = UpdateAnswer("q1", "answered", b'"yes"')
        await holder.commits(DONE, inbox_seen=1, is_consuming=True, answers=(answer,))
        assert isinstance(await world.store.send(update("r", "q2")), Ended)
        assert await world.store.question("r", "q2") is None
        assert await world.store.send(update("r", "q1")) == Accepted(is_repeat=True)
        assert await world.store.question("r", "q1") == Question("q1", b"hash", answer)

    # -- answering -----------------------------------------------------------------------------------------------------

    async def test_an_answer_is_part_of_its_turn(self, world: World) -> None:
        """Contract: it is there when the turn is durable; of a turn that is refused there is no trace."""
        holder = await _asked(world)
        answer = UpdateAnswer("q1", "refused", b'"no"')
        stale = holder.turn(e.Patched(name="stale"), answers=(answer,))
        await holder.commits()
        assert isinstance((await world.store.commit([stale]))[0], Fenced)
        assert await world.store.question("r", "q1") == Question("q1", b"hash")
        await holder.commits(answers=(answer,))
        assert await world.store.question("r", "q1") == Question("q1", b"hash", answer)

    async def test_an_end_with_an_unread_question_is_refused(self, world: World) -> None:
        """Contract: so no run ends without having settled what it was asked."""
        holder = await _asked(world)
        assert isinstance(await holder.commit(DONE, inbox_seen=0), Unread)

    async def test_the_first_answer_counts(self, world: World) -> None:
        """Contract: another answer to the same question changes nothing."""
        holder = await _asked(world)
        await holder.commits(answers=(UpdateAnswer("q1", "answered", b"1"),))
        await holder.commits(answers=(UpdateAnswer("q1", "left", b'"no"'),))
        assert await world.store.question("r", "q1") == Question("q1", b"hash", UpdateAnswer("q1", "answered", b"1"))

    async def test_an_answer_to_an_unknown_question_is_kept(self, world: World) -> None:
        """Contract: an imported run brings answers to questions that were put to it elsewhere."""
        holder = await world.held_run("r")
        await holder.commits(answers=(UpdateAnswer("q1", "answered", b"1"),))
        assert await world.store.question("r", "q1") == Question("q1", b"", UpdateAnswer("q1", "answered", b"1"))

    async def test_the_blob_of_an_answer_stays_with_it(self, world: World) -> None:
        """Contract: a large answer refers to its blob, whatever happens to the row that brought it."""
        holder = await _asked(world)
        answer = UpdateAnswer("q1", "answered", b"null", LARGE_NAME, (LARGE_NAME,))
        await holder.commits(answers=(answer,), blobs={LARGE_NAME: LARGE})
        contents = await world.store.contents(holder.no)
        assert contents is not None
        assert LARGE_NAME in contents.references
        found = await world.store.question("r", "q1")
        assert found is not None
        assert found.answer is not None
        assert await world.store.get_blob(found.answer.blob) == LARGE

    async def test_listeners_hear_of_an_answer(self, world: World) -> None:
        """Contract: a turn that settles a question hints at its run, so that no caller has to poll for it."""
        holder = await _asked(world)
        heard: list[str] = []
        stop = world.store.subscribe(heard.append)
        await holder.commits(answers=(UpdateAnswer("q1", "answered", b"1"),))
        stop()
        assert "r" in heard

    # -- refusing without a turn ---------------------------------------------------------------------------------------

    async def test_a_refusal_needs_no_turn(self, world: World) -> None:
        """Contract: the answer is stored and the journal unchanged; the message keeps its number, as a refused one."""
        holder = await _asked(world)
        turns = (await world.get("r")).next_ordinal
        answer = UpdateAnswer("q1", "refused", b'"no"')
        assert await world.store.refuse(holder.no, answer, epoch=holder.epoch)
        assert await world.store.question("r", "q1") == Question("q1", b"hash", answer)
        assert [(message.no, message.kind) for message in await world.unread("r")] == [(1, "refused")]
        assert (await world.get("r")).next_ordinal == turns

    async def test_only_the_holder_refuses(self, world: World) -> None:
        """Contract: False and no trace under another epoch, for what is not an unread update, and after the end."""
        holder = await _asked(world)
        answer = UpdateAnswer("q1", "refused", b'"no"')
        assert not await world.store.refuse(holder.no, answer, epoch=holder.epoch + 1)
        assert not await world.store.refuse(999, answer, epoch=holder.epoch)
        assert not await world.store.refuse(holder.no, UpdateAnswer("q2", "refused"), epoch=holder.epoch)
        await holder.commits(inbox_seen=1, is_consuming=True)
        assert not await world.store.refuse(holder.no, answer, epoch=holder.epoch)
        assert await world.store.question("r", "q1") == Question("q1", b"hash")

    async def test_questions_go_with_the_run(self, world: World) -> None:
        """Contract: removing the run's tree removes them."""
        holder = await _asked(world)
        await holder.commits(DONE, inbox_seen=1, is_consuming=True, answers=(UpdateAnswer("q1", "ended", b'"x"'),))
        await world.store.remove(["r"], keep=None, is_asked=True)
        assert await world.store.question("r", "q1") is None

    # -- attributes ----------------------------------------------------------------------------------------------------

    async def test_a_turn_changes_attributes(self, world: World) -> None:
        """Contract: set and removed with the turn, by name; those that are not named stay as they were."""
        holder = await world.held_run("r", attributes={"tier": "gold", "shop": "7"})
        changed = e.AttributesSet(attributes={"tier": "silver", "shop": None, "ort": "Köln"})
        await holder.commits(changed, attributes=changed.attributes)
        assert (await world.get("r")).attributes == {"tier": "silver", "ort": "Köln"}
        assert await _found(world, tier="silver", ort="Köln") == ["r"]
        for gone in ({"tier": "gold"}, {"shop": "7"}):
            assert await _found(world, **gone) == []

    @pytest.mark.parametrize("value", ["", "null", "ü" * 100])
    async def test_any_text_is_a_value(self, world: World, value: str) -> None:
        """Contract: exactly as it was given; the word null is text."""
        holder = await world.held_run("r")
        await holder.commits(e.AttributesSet(attributes={"a": value}), attributes={"a": value})
        assert (await world.get("r")).attributes == {"a": value}
        assert await _found(world, a=value) == ["r"]


async def _asked(world: World) -> Holder:
    holder = await world.held_run("r")
    await world.store.send(update("r", "q1"))
    return holder


async def _found(world: World, **attributes: str) -> list[str]:
    return [run.id for run in (await world.store.list(Filter(attributes=attributes))).runs]
