"""Work that shares a transaction: one piece that cannot be done spoils no other, and costs the others one more try."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.sql.batches import settle
from holdfast.errors import StoreUnavailable
from holdfast.ports.journal import Committed, Exposure, Refused, Unread, answered, sole_verdict
from holdfast.testing.conformance.world import START, World
from tests.conformance.test_stores import open_store


class Performed:
    """Answers each piece with its double; a batch that holds 13 fails, and one that holds 0 finds nobody there."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []

    def __call__(self, work: Sequence[int]) -> list[int]:
        self.calls.append(list(work))
        if 13 in work:
            raise ValueError("13")
        if 0 in work:
            raise StoreUnavailable("away")
        return [2 * number for number in work]


def is_of_one(error: Exception) -> bool:
    return not isinstance(error, StoreUnavailable)


def test_what_goes_well_is_done_at_once() -> None:
    """Contract: one call for all."""
    performed = Performed()
    assert settle([1, 2, 3], performed, is_of_one) == [2, 4, 6]
    assert performed.calls == [[1, 2, 3]]


def test_one_that_spoils_the_batch_fails_alone() -> None:
    """Contract: each is tried once more by itself, in order, and only the one that fails again has an error."""
    performed = Performed()
    first, error, last = settle([1, 13, 3], performed, is_of_one)
    assert (first, last) == (2, 6)
    assert isinstance(error, ValueError)
    assert performed.calls == [[1, 13, 3], [1], [13], [3]]


def test_a_failure_of_nobodys_is_not_tried_again() -> None:
    """Contract: if nobody can be to blame, all have the error of the one call."""
    performed = Performed()
    outcomes = settle([1, 0, 3], performed, is_of_one)
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 3
    assert performed.calls == [[1, 0, 3]]


def test_what_a_batch_is_answered() -> None:
    """Contract: a refused turn is a value among the verdicts of others. Raised is what concerns all: the error of a
    turn sent alone, and that of a store which takes nothing."""
    away, other, verdict = StoreUnavailable("away"), ValueError("13"), Committed(1, 0)
    assert answered([verdict, other, Unread(2)]) == [verdict, Refused(other), Unread(2)]
    assert answered([other, other]) == [Refused(other), Refused(other)]
    assert answered([verdict, away]) == [verdict, Refused(away)]
    with pytest.raises(StoreUnavailable):
        answered([away, away])
    with pytest.raises(ValueError, match="13"):
        answered([other])
    with pytest.raises(ValueError, match="13"):
        sole_verdict([Refused(other)])
    assert answered([]) == []


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_turn_that_cannot_be_stored_spoils_no_other(kind: str) -> None:
    """Promise (L1): of turns that share a transaction only the one that brings what no store can hold is refused, and
    nothing of it is written."""
    clock = VirtualClock(START)
    world = World(await open_store(kind, clock), clock)
    try:
        holders = [await world.held_run(name) for name in "abc"]
        bad = (Exposure("\ud800", b"1"),)
        turns = [holder.turn() for holder in holders]
        turns[1] = msgspec.structs.replace(holders[1].turn(children=(holders[1].child("never", "k"),)), exposed=bad)
        answers = await world.store.commit(turns)
        assert [type(answer) for answer in answers] == [Committed, Refused, Committed]
        assert [(await world.get(name)).next_ordinal for name in "abc"] == [3, 2, 3]
        assert await world.store.get("never") is None
        with pytest.raises(UnicodeEncodeError):
            await world.store.commit([turns[1]])
        await world.verify()
    finally:
        await world.store.close()
