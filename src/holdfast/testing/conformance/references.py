"""References: a blob that something refers to is never collected, even if no bytes in the store show its name.

Payloads here look encrypted: the name of the blob is not in them, only in the references beside them. Each case keeps a
blob by a single source of references, and loses it with that source.
"""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256

import msgspec

from holdfast.core import events as e
from holdfast.core.definition import DefinitionBytes
from holdfast.core.messages import ended
from holdfast.core.references import ReferringBytes
from holdfast.core.snapshot import advance, references_of_past, stand_in, to_snapshot
from holdfast.ports.blobs import Stub
from holdfast.ports.inbox import message, publication
from holdfast.testing.conformance.runs import first_turn
from holdfast.testing.conformance.suite import Suite, shows
from holdfast.testing.conformance.world import DONE, Holder, World
from holdfast.testing.conformance.world import new_run as a_run
from holdfast.turn.start import new_run

GRACE = timedelta(days=1)
KEEP = timedelta(days=30)
HIDDEN = msgspec.Raw(b'"encrypted"')


def result(*refs: str, key: str = "s") -> e.StepCompleted:
    """The result of a step, encrypted, which refers to these blobs."""
    return e.StepCompleted(key=key, value=HIDDEN, refs=refs)


async def kept(world: World, *names: str) -> set[str]:
    """The blobs that remain when everything unused is collected."""
    world.clock.advance(GRACE * 2)
    while (await world.store.collect(GRACE)).blobs:
        world.clock.advance(GRACE * 2)  # what a blob referred to begins its own grace
    return set(await world.store.known_blobs(names))


async def compacted(world: World, holder: Holder, ordinal: int) -> int:
    """Compacts the first rows of a journal, and leaves no snapshot."""
    (row,) = [row for row in await world.store.history(holder.id) if row.ordinal == ordinal]
    past, blobs = advance(holder.id, None, holder.turns[:ordinal])
    references = references_of_past(past)
    await world.store.put_snapshot(holder.no, to_snapshot(past, ordinal, row.checksum), blobs, references)
    gone = await world.store.compact(holder.no, stand_in(past, row), references)
    await world.store.drop_snapshots([holder.no])
    return gone


async def removed(world: World, *roots: str) -> None:
    """Retention removes these trees, which have ended."""
    world.clock.advance(KEEP)
    assert (await world.store.remove(roots, KEEP)).trees == len(roots)


class ReferencesSuite(Suite):
    """The references of a row, a message, a value, a snapshot and a blob."""

    # -- rows ----------------------------------------------------------------------------------------------------------

    async def test_a_row_keeps_what_it_refers_to(self, world: World) -> None:
        """Contract: as long as its run is there, whatever its body looks like."""
        name = await world.store.put_blob(b"a step's own data", kind="user")
        holder = await world.held_run("r")
        await holder.commits(result(name))
        assert await kept(world, name) == {name}
        await holder.commits(DONE)
        await removed(world, "r")
        assert await kept(world, name) == set()

    async def test_a_start_keeps_what_it_refers_to(self, world: World) -> None:
        """Contract: of a run, and of a child that a turn starts."""
        names = [await world.store.put_blob(b"%d" % number) for number in range(2)]
        await world.make("r", value=HIDDEN, refs=(names[0],))
        holder = await world.holder("r")
        await holder.commits(children=(holder.child("r/c", "c", value=HIDDEN, refs=(names[1],)),))
        assert await kept(world, *names) == set(names)

    async def test_a_run_begun_with_its_start_keeps_what_both_rows_refer_to(self, world: World) -> None:
        """Contract: also if both are written at once."""
        names = [await world.store.put_blob(b"%d" % number) for number in range(2)]
        await world.worker("i1")
        new = world.new("r", value=HIDDEN, refs=(names[0],))
        first = first_turn(world, new, result(names[1]), references=(names[1],))
        await world.create(new, instance="i1", worker="w1", first=first)
        assert (await world.get("r")).next_ordinal == 3
        assert await kept(world, *names) == set(names)

    async def test_a_name_of_no_blob_is_no_reference(self, world: World) -> None:
        """Contract: a blob that was collected is not brought back by its name, and nothing fails for it."""
        missing = "ab" * 32
        holder = await world.held_run("r")
        await holder.commits(result(missing))
        contents = await world.store.contents(holder.no)
        assert contents is not None
        assert contents.references == frozenset()

    async def test_retried_runs_keep_what_they_take_over(self, world: World) -> None:
        """Contract: facts that a run adopts refer to their blobs for that run too, when the original is gone."""
        name = await world.store.put_blob(b"a step's own data")
        first = await world.held_run("r")
        await first.commits(result(name))
        await first.commits(DONE)
        taken = e.Adopted(facts=(result(name),))
        await world.create(new_run("again", e.Started(workflow="order"), world.clock.now(), adopted=taken)[0])
        await removed(world, "r")
        assert await kept(world, name) == {name}

    # -- messages ------------------------------------------------------------------------------------------------------

    async def test_messages_keep_what_they_refer_to(self, world: World) -> None:
        """Contract: signals, publications and ends of children, until the run takes them in and beyond."""
        names = [await world.store.put_blob(b"%d" % number) for number in range(3)]
        signal, topic, end = names
        holder = await world.held_run("r")
        await holder.commits(e.WaitStarted(key="w", name="news", kind="topic"), watch=(("news", "w"),))
        await world.store.send(message("r", "m", "signal", e.SignalReceived(message="m", name="go", refs=(signal,))))
        told = e.TopicReceived(key="", message="t", name="news", value=HIDDEN, refs=(topic,))
        assert await world.store.publish(publication("news", "t", told)) == ["r"]
        child = ended("c", e.Completed(value=HIDDEN, refs=(end,)), None, "c")
        await world.store.send(message("r", "end of c", "child", child))
        assert await kept(world, *names) == set(names)

    async def test_a_message_that_lost_its_body_refers_to_nothing(self, world: World) -> None:
        """Contract: what it referred to stays if the row that took it in is needed, and goes if that went."""
        names = [await world.store.put_blob(b"%d" % number) for number in range(2)]
        holder = await world.held_run("r")
        for number, name in enumerate(names, 1):
            event = e.SignalReceived(message=f"m{number}", name="go", value=HIDDEN, refs=(name,))
            await world.store.send(message("r", f"m{number}", "signal", event))
            taken = e.WaitEnded(key=f"w{number}", message=f"m{number}")
            begins = [e.WaitStarted(key=f"w{number}", name="go")]
            await holder.commits(*begins, event, taken, inbox_seen=number, is_consuming=True)
            if number == 1:
                await holder.commits(e.Continued(workflow="order"))
        await holder.commits()
        assert await compacted(world, holder, 4) == 3
        assert await kept(world, *names) == {names[1]}

    async def test_a_message_in_anothers_place_has_references_of_its_own(self, world: World) -> None:
        """Contract: those of the message that goes go with it."""
        names = [await world.store.put_blob(b"%d" % number) for number in range(2)]
        await world.held_run("r")
        events = [
            e.SignalReceived(message=f"m{n}", name="go", value=HIDDEN, refs=(name,)) for n, name in enumerate(names)
        ]
        await world.store.send(message("r", "m0", "signal", events[0]))
        await world.store.replace(message("r", "m1", "signal", events[1]), 1)
        assert await kept(world, *names) == {names[1]}

    async def test_whoever_adopted_a_run_keeps_what_its_result_refers_to(self, world: World) -> None:
        """Contract: told when it ends, or at once if it has ended; also when the run itself is gone."""
        name = await world.store.put_blob(b"a step's own data")
        child = await world.held_run("c", workflow="parcel")
        for parent in ("early", "late"):
            holder = await world.held_run(parent)
            if parent == "late":
                await child.commits(e.Completed(value=HIDDEN, refs=(name,)))
            started = e.ChildStarted(key="k", run="c", workflow="parcel")
            await holder.commits(started, children=(holder.child("c", "k"),))
        await removed(world, "c")
        assert await kept(world, name) == {name}
        for parent in ("early", "late"):
            contents = await world.store.contents((await world.get(parent)).no)
            assert contents is not None
            assert contents.references == {name}

    # -- values shown --------------------------------------------------------------------------------------------------

    async def test_a_value_shown_keeps_what_it_refers_to(self, world: World) -> None:
        """Contract: after the row that showed it was compacted away, until another value is in its place and the run is
        compacted again."""
        names = [await world.store.put_blob(b"%d" % number) for number in range(2)]
        holder = await world.held_run("r")
        await holder.commits(*(e.Exposed(name=f"v{n}", value=HIDDEN, refs=(name,)) for n, name in enumerate(names)))
        await holder.commits(e.Continued(workflow="order"))
        await holder.commits()
        await compacted(world, holder, 3)
        assert await kept(world, *names) == set(names)
        again = e.Exposed(name="v1", value=HIDDEN, refs=(names[1],))
        await holder.commits(e.Exposed(name="v0", value=HIDDEN), again)
        await holder.commits(e.Continued(workflow="order"))
        await holder.commits()
        await compacted(world, holder, 6)
        assert await kept(world, *names) == {names[1]}

    async def test_a_value_in_anothers_place_has_references_of_its_own(self, world: World) -> None:
        """Contract: what the earlier value referred to goes once its row has gone."""
        names = [await world.store.put_blob(b"%d" % number) for number in range(2)]
        holder = await world.held_run("r")
        for name in names:
            await holder.commits(e.Exposed(name="v", value=HIDDEN, refs=(name,)))
        await holder.commits(e.Continued(workflow="order"))
        await holder.commits()
        await compacted(world, holder, 4)
        assert await kept(world, *names) == {names[1]}

    # -- snapshots and compaction --------------------------------------------------------------------------------------

    async def test_compaction_keeps_what_the_turns_refer_to(self, world: World) -> None:
        """Contract: of the turns that a replay needs; what a `continue_as` left behind goes."""
        names = [await world.store.put_blob(b"%d" % number) for number in range(2)]
        holder = await world.held_run("r")
        await holder.commits(result(names[0]))
        await holder.commits(e.Continued(workflow="order"))
        await holder.commits(result(names[1]))
        await holder.commits()
        assert await compacted(world, holder, 4) == 3
        assert await kept(world, *names) == {names[1]}

    async def test_compaction_leaves_the_references_of_what_stays(self, world: World) -> None:
        """Contract: of later rows, and of messages that were not taken in."""
        names = [await world.store.put_blob(b"%d" % number) for number in range(2)]
        holder = await world.held_run("r")
        await holder.commits()
        await world.store.send(message("r", "m", "signal", e.SignalReceived(message="m", name="go", refs=(names[0],))))
        await holder.commits(result(names[1]))
        assert await compacted(world, holder, 2) == 1
        assert await kept(world, *names) == set(names)

    async def test_a_snapshot_keeps_its_own_segments_and_those_before(self, world: World) -> None:
        """Contract: until it is dropped, or one that does without them is in its place."""
        name = await world.store.put_blob(b"a step's own data")
        holder = await world.held_run("r")
        await holder.commits(result(name))
        await holder.commits()
        early, first = advance("r", None, holder.turns[:2])
        late, second = advance("r", early, holder.turns[2:3])
        for past, blobs, turn in ((early, first, holder.turns[1]), (late, second, holder.turns[2])):
            snapshot = to_snapshot(past, turn.ordinal, turn.checksum)
            assert await world.store.put_snapshot(holder.no, snapshot, blobs, references_of_past(past))
        assert set(references_of_past(late)) == {*first, *second, name}
        assert await kept(world, *first, *second) == {*first, *second}
        snapshot = to_snapshot(early, 3, holder.turns[2].checksum)
        assert await world.store.put_snapshot(holder.no, snapshot, first, references_of_past(early))
        assert await kept(world, *first, *second) == {*first}
        await world.store.drop_snapshots([holder.no])
        assert await kept(world, *first, name) == {name}

    # -- blobs ---------------------------------------------------------------------------------------------------------

    async def test_a_blob_keeps_what_it_refers_to(self, world: World) -> None:
        """Contract: however deep, whether it came by itself or with a turn; and a store says what it refers to."""
        inner = await world.store.put_blob(b"a step's own data", kind="user")
        middle = await world.store.put_blob(ReferringBytes(b"middle", (inner,)))
        outer = await world.store.put_blob(Stub("cd" * 32, 7, (middle,)))
        holder = await world.held_run("r")
        await holder.commits(e.StepCompleted(key="s", blob=outer))
        assert await kept(world, inner, middle, outer) == {inner, middle, outer}
        found = await world.store.blob_references([inner, middle, outer, "../x", "ab" * 32])
        assert {name: set(held) for name, held in found.items()} == {middle: {inner}, outer: {middle}}
        await holder.commits(DONE)
        await removed(world, "r")
        assert await kept(world, inner, middle, outer) == set()

    async def test_a_blob_stored_again_keeps_what_it_refers_to_then(self, world: World) -> None:
        """Contract: bytes that were stored without a word about what they refer to may be stored with it later."""
        inner = await world.store.put_blob(b"a step's own data", kind="user")
        outer = await world.store.put_blob(b"outer")
        await world.store.put_blob(ReferringBytes(b"outer", (inner,)))
        holder = await world.held_run("r")
        await holder.commits(e.StepCompleted(key="s", blob=outer))
        assert await kept(world, inner, outer) == {inner, outer}

    @shows("stepflow.B2", "stepflow.B5")
    async def test_a_definition_that_comes_with_a_run_is_kept_as_one(self, world: World) -> None:
        """Contract: what a new run brings is a payload, unless it is a definition; the kind is the first one it had."""
        data = DefinitionBytes(b'{"holdfast":1}')
        names = [sha256(each).hexdigest() for each in (data, b"large")]
        made = a_run("flow", world.store.clock.now(), blobs=((names[0], data), (names[1], b"large")))
        await world.store.create(made, key_since=world.store.clock.now())
        assert [await world.store.blob_kind(name) for name in names] == ["definition", "payload"]
        assert await world.store.get_blob(names[0]) == data
