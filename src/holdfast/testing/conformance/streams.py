"""Streams: parts in order, at offsets without gaps, written only by the holder and removed with their run."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from holdfast.core import events as e
from holdfast.core.checksums import parts_checksum
from holdfast.ports.journal import Commit, Committed, Fenced, Unread
from holdfast.ports.parts import (
    STREAMS,
    Appended,
    Closed,
    Elsewhere,
    Flush,
    StepSpan,
    StoredSpan,
    StreamPage,
    TurnParts,
    pack,
    unpack,
)
from holdfast.testing.conformance.suite import Suite
from holdfast.testing.conformance.world import DONE, Holder, World, signal

ODD = "état 'x' %s"


def flush(holder: Holder, first: int, *values: str, name: str = "tokens", step: str = "ask", attempt: int = 1) -> Flush:
    """Parts of one attempt."""
    packed = pack([f'"{value}"'.encode() for value in values])
    return Flush(
        no=holder.no,
        run=holder.id,
        epoch=holder.epoch,
        name=name,
        first=first,
        step=step,
        attempt=attempt,
        packed=packed,
        count=len(values),
    )


def turn_parts(*values: str, name: str = "tokens") -> TurnParts:
    """Parts of the workflow's own code."""
    return TurnParts(name, 1, [f'"{value}"'.encode() for value in values])


async def page(world: World, run: str = "r", name: str = "tokens", **how: Any) -> StreamPage:
    found = await world.store.read_parts(run, name, **how)
    assert found is not None
    return found


async def texts(world: World, run: str = "r", name: str = "tokens", **how: Any) -> list[str]:
    """The parts, checked for gaps and checksums."""
    rows = (await page(world, run, name, **how)).rows
    for before, after in pairwise(rows):
        assert before.end == after.first
    for row in rows:
        assert row.end - row.first == len(unpack(row.packed))
        assert row.checksum == parts_checksum(run, name, row.step, row.attempt, row.epoch, row.packed)
    return [bytes(part).decode().strip('"') for row in rows for part in unpack(row.packed)]


class StreamsSuite(Suite):
    """`ports.parts`."""

    async def test_parts_are_appended_in_order(self, world: World) -> None:
        """Contract: many rows in one call, of several streams and runs; each is read back whole, with who sent it."""
        one, two = await world.held_run("r"), await world.held_run("s")
        batch = [
            flush(one, 0, "a", "b"),
            flush(two, 0, "x", name=ODD),
            flush(one, 2, "c", step="tell", attempt=3),
            flush(one, 0, "other", name="log"),
        ]
        assert list(await world.store.append(batch)) == [Appended()] * 4
        assert await texts(world) == ["a", "b", "c"]
        assert await texts(world, name="log") == ["other"]
        assert await texts(world, "s", ODD) == ["x"]
        rows = (await page(world)).rows
        assert [(row.first, row.end, row.step, row.attempt, row.epoch) for row in rows] == [
            (0, 2, "ask", 1, one.epoch),
            (2, 3, "tell", 3, one.epoch),
        ]
        assert dict(await world.store.streams_of("r")) == {"log": 1, "tokens": 3}
        assert dict(await world.store.streams_of("s")) == {ODD: 1}

    async def test_nothing_there_is_no_error(self, world: World) -> None:
        """Contract: an unknown run has no page; a stream without parts is empty, and has no end."""
        await world.held_run("r")
        assert await world.store.read_parts("nobody", "tokens") is None
        assert await page(world) == StreamPage([], [], 1, is_ended=False)
        assert dict(await world.store.stream_ends([("r", "tokens"), ("nobody", "tokens")])) == {}
        assert dict(await world.store.streams_of("r")) == {}
        assert dict(await world.store.streams_of("nobody")) == {}
        assert list(await world.store.append([])) == []

    async def test_the_same_parts_sent_again_count_once(self, world: World) -> None:
        """Contract: after an unknown outcome the same batch is answered as before, also when more has come since."""
        holder = await world.held_run("r")
        batch = [flush(holder, 0, "a"), flush(holder, 1, "b")]
        assert list(await world.store.append(batch)) == [Appended()] * 2
        assert list(await world.store.append(batch)) == [Appended()] * 2
        await world.store.append([flush(holder, 2, "c")])
        assert list(await world.store.append(batch)) == [Appended()] * 2
        assert await texts(world) == ["a", "b", "c"]

    async def test_a_wrong_offset_is_answered_with_the_end(self, world: World) -> None:
        """Contract: nothing is written, and no later part of that stream overtakes; other streams are not affected."""
        holder = await world.held_run("r")
        await world.store.append([flush(holder, 0, "a", "b")])
        batch = [
            flush(holder, 1, "late", step="tell"),
            flush(holder, 2, "overtaking"),
            flush(holder, 0, "fine", name="log"),
            flush(holder, 9, "beyond"),
        ]
        answers = list(await world.store.append(batch))
        assert answers == [Elsewhere(2), Elsewhere(2), Appended(), Elsewhere(2)]
        assert await texts(world) == ["a", "b"]
        assert await texts(world, name="log") == ["fine"]
        other = [flush(holder, 0, "c", "d")]
        assert list(await world.store.append(other)) == [Elsewhere(2)], "other parts at an offset that is taken"

    async def test_only_the_holder_appends(self, world: World) -> None:
        """Contract: after a take-over the old epoch is `Closed`, and leaves no trace; so is a run that is not there."""
        old = await world.held_run("r")
        await world.store.append([flush(old, 0, "a")])
        await world.store.release(old.no, epoch=old.epoch, until=world.clock.now(), inbox_seen=0)
        new = await world.holder("r", instance="i2")
        assert list(await world.store.append([flush(old, 1, "stale")])) == [Closed()]
        assert list(await world.store.append([flush(new, 1, "b"), flush(old, 2, "stale")])) == [Appended(), Closed()]
        assert await texts(world) == ["a", "b"]
        assert [row.epoch for row in (await page(world)).rows] == [1, 2]

    async def test_an_ended_run_is_closed(self, world: World) -> None:
        """Contract: nothing is appended after the end, and a page says that it has come."""
        holder = await world.held_run("r")
        await world.store.append([flush(holder, 0, "a")])
        await holder.commits(DONE)
        assert list(await world.store.append([flush(holder, 1, "late")])) == [Closed()]
        assert await texts(world) == ["a"]
        assert (await page(world)).is_ended

    async def test_a_page_begins_after_an_offset(self, world: World) -> None:
        """Contract: the row that holds the next offset comes whole; the limit is of rows; the end is empty."""
        holder = await world.held_run("r")
        await world.store.append([flush(holder, 0, "a", "b", "c"), flush(holder, 3, "d"), flush(holder, 4, "e")])
        assert await texts(world, after=0) == ["a", "b", "c", "d", "e"]
        assert await texts(world, after=2) == ["d", "e"]
        assert await texts(world, after=2, limit=1) == ["d"]
        assert await texts(world, after=4) == []
        assert await texts(world, after=99) == []

    async def test_parts_of_a_turn_come_with_it(self, world: World) -> None:
        """Contract: they get the next offsets; a turn that is sent again writes them once; one that is refused, or
        fenced, leaves none."""
        holder = await world.held_run("r")
        await world.store.append([flush(holder, 0, "a")])
        brought = (turn_parts("b", "c"), turn_parts("x", name=ODD))
        commit = holder.turn(e.Streamed(name="tokens", parts=2), parts=brought)
        assert isinstance(await holder.submit(commit), Committed)
        assert isinstance(await holder.submit(commit), Committed)
        await world.store.append([flush(holder, 3, "d")])
        assert await texts(world) == ["a", "b", "c", "d"]
        assert await texts(world, name=ODD) == ["x"]
        assert [row.step for row in (await page(world)).rows] == ["ask", "", "ask"]
        await world.store.send(signal("r", "m"))
        assert isinstance(await holder.commit(DONE, parts=(turn_parts("unread"),)), Unread)
        stale = _at(holder.turn(parts=(turn_parts("stale"),)), epoch=9)
        assert isinstance((await world.store.commit([stale]))[0], Fenced)
        assert await texts(world) == ["a", "b", "c", "d"]

    async def test_the_first_turn_may_bring_parts(self, world: World) -> None:
        """Contract: also if the run is made with it, in one transaction."""
        worker = await world.worker()
        new = world.new("r")
        await world.create(new, instance=worker.instance, worker=worker.worker)
        holder = await world.reader(await world.get("r"))
        await holder.commits(parts=(turn_parts("a"),))
        assert await texts(world) == ["a"]

    async def test_a_turn_says_what_became_of_an_attempt(self, world: World) -> None:
        """Contract: spans come with their turn; a page has those that touch its rows, and no others."""
        holder = await world.held_run("r")
        await world.store.append([flush(holder, 0, "a", "b"), flush(holder, 2, "c", attempt=2)])
        spans = (
            StepSpan("ask", e.Span("tokens", 1, 0, 2), is_completed=False),
            StepSpan("ask", e.Span("tokens", 2, 2, 3), is_completed=True),
            StepSpan("ask", e.Span("log", 2, 0, 1), is_completed=True),
        )
        commit = holder.turn(spans=spans)
        for _ in range(2):
            assert isinstance(await holder.submit(commit), Committed)
        assert (await page(world)).spans == [
            StoredSpan("ask", 1, 0, 2, is_completed=False),
            StoredSpan("ask", 2, 2, 3, is_completed=True),
        ]
        assert (await page(world, after=1)).spans == [StoredSpan("ask", 2, 2, 3, is_completed=True)]
        assert (await page(world, limit=1)).spans == [StoredSpan("ask", 1, 0, 2, is_completed=False)]
        assert (await page(world, after=2)).spans == []

    async def test_many_turns_with_and_without_parts_share_a_batch(self, world: World) -> None:
        """Contract: each brings its own."""
        holders = [await world.held_run(f"r{number}") for number in range(4)]
        turns = [
            holder.turn(parts=(turn_parts(holder.id),) if place % 2 else ()) for place, holder in enumerate(holders)
        ]
        answers = await world.store.commit(turns)
        assert all(isinstance(answer, Committed) for answer in answers)
        assert [await texts(world, holder.id) for holder in holders] == [[], ["r1"], [], ["r3"]]

    async def test_ends_are_asked_for_together(self, world: World) -> None:
        """Contract: one question about any number of streams; those without parts are not in the answer."""
        one, two = await world.held_run("r"), await world.held_run("s")
        await world.store.append([flush(one, 0, "a", "b"), flush(two, 0, "x")])
        asked = [("r", "tokens"), ("s", "tokens"), ("s", "log"), ("nobody", "tokens")]
        assert dict(await world.store.stream_ends(asked)) == {("r", "tokens"): 2, ("s", "tokens"): 1}
        assert dict(await world.store.stream_ends([])) == {}

    async def test_listeners_hear_of_parts(self, world: World) -> None:
        """Contract: `STREAMS`, and no run's id: nothing is due. A refused append says nothing."""
        holder = await world.held_run("r")
        heard: list[str] = []
        unsubscribe = world.store.subscribe(heard.append)
        await world.store.append([flush(holder, 0, "a")])
        assert heard == [STREAMS]
        await world.store.append([flush(holder, 7, "b")])
        assert heard == [STREAMS]
        await holder.commits(parts=(turn_parts("b"),))
        assert heard == [STREAMS] * 2
        unsubscribe()

    async def test_streams_go_with_their_run(self, world: World) -> None:
        """Contract: retention and deletion take them along; a new run of that id has none; others keep theirs."""
        kept = await world.held_run("kept")
        await world.store.append([flush(kept, 0, "stays")])
        holder = await world.held_run("r")
        await world.store.append([flush(holder, 0, "a")])
        span = StepSpan("ask", e.Span("tokens", 1, 0, 1), is_completed=True)
        await holder.commits(DONE, spans=(span,), parts=(turn_parts("b"),))
        before = {part.name: part for part in (await world.store.space()).tables}["streams"]
        assert before.rows == 3
        assert (await world.store.remove(["r"], None, is_asked=True)).runs == 1
        assert await world.store.read_parts("r", "tokens") is None
        await world.held_run("r")
        assert await page(world) == StreamPage([], [], 1, is_ended=False)
        assert await texts(world, "kept") == ["stays"]
        assert {part.name: part for part in (await world.store.space()).tables}["streams"].rows == 1

    @pytest.mark.parametrize("size", [1, 300_000])
    async def test_parts_of_any_bytes(self, world: World, size: int) -> None:
        """Contract: what JSON can hold comes back byte by byte."""
        holder = await world.held_run("r")
        text = ("é\\u0000💥" * size)[:size]
        await world.store.append([flush(holder, 0, text, "")])
        assert await texts(world) == [text, ""]

    async def test_appends_and_turns_at_once(self, world: World) -> None:
        """Contract: a turn and an append of one stream meet in some order; offsets stay dense, nothing is lost."""
        holder = await world.held_run("r")
        end = 0
        for number in range(5):
            commit = holder.turn(parts=(turn_parts(f"t{number}"),))
            sent = world.store.append([flush(holder, end, f"s{number}")])
            answers, _ = await asyncio.gather(sent, holder.submit(commit))
            if isinstance(answers[0], Elsewhere):
                assert list(await world.store.append([flush(holder, answers[0].end, f"s{number}")])) == [Appended()]
            end += 2
        found = await texts(world)
        assert sorted(found) == sorted([*(f"s{n}" for n in range(5)), *(f"t{n}" for n in range(5))])
        assert [x for x in found if x.startswith("s")] == [f"s{n}" for n in range(5)]


def _at(commit: Commit, *, epoch: int) -> Commit:
    """The same turn by a holder of another epoch."""
    return msgspec.structs.replace(commit, row=msgspec.structs.replace(commit.row, epoch=epoch))
