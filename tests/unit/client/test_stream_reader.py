"""What became of an attempt, by what a page says; and how much is asked for at a time."""

from __future__ import annotations

import pytest

from holdfast.authoring.handle import Part
from holdfast.client.stream_page import state_of
from holdfast.client.stream_reader import FEWEST, MOST, next_limit, place_after
from holdfast.errors import InvalidInput
from holdfast.ports.parts import StoredParts, StoredSpan, StreamPage

ROW = StoredParts(2, 5, "ask", 1, 3, b"[1,2,3]", b"")


def page(*spans: StoredSpan, epoch: int = 3, is_ended: bool = False) -> StreamPage:
    return StreamPage([ROW], list(spans), epoch, is_ended)


def test_an_attempt_is_open_while_its_epoch_is() -> None:
    """Promise: without a word on it, it is superseded once the run has ended or another worker has it."""
    assert state_of(ROW, page()) == "open"
    assert state_of(ROW, page(epoch=4)) == "superseded"
    assert state_of(ROW, page(is_ended=True)) == "superseded"


def test_a_span_decides() -> None:
    """Promise: only the span of that step, attempt and place; it holds whatever came after."""
    done = StoredSpan("ask", 1, 0, 5, is_completed=True)
    assert state_of(ROW, page(done, epoch=9, is_ended=True)) == "completed"
    assert state_of(ROW, page(StoredSpan("ask", 1, 0, 5, is_completed=False))) == "superseded"
    others = (
        StoredSpan("tell", 1, 0, 5, is_completed=True),
        StoredSpan("ask", 2, 0, 5, is_completed=True),
        StoredSpan("ask", 1, 5, 9, is_completed=True),
        StoredSpan("ask", 1, 0, 2, is_completed=True),
    )
    assert state_of(ROW, page(*others)) == "open"


def test_what_the_workflow_sent_is_done() -> None:
    row = StoredParts(0, 1, "", 1, 1, b"[1]", b"")
    assert state_of(row, StreamPage([row], [], 9, is_ended=False)) == "completed"


def test_pages_grow_while_they_are_small() -> None:
    small = StreamPage([ROW] * FEWEST, [], 1, is_ended=False)
    assert next_limit(small, FEWEST) == 2 * FEWEST
    assert next_limit(StreamPage([ROW] * MOST, [], 1, is_ended=False), MOST) == MOST
    large = StreamPage([StoredParts(0, 1, "", 1, 1, b"x" * 500_000, b"")] * 32, [], 1, is_ended=False)
    assert next_limit(large, 32) == FEWEST


@pytest.mark.parametrize("after", [-2, "1", 1.0, True])
def test_a_place_that_is_none(after: object) -> None:
    with pytest.raises(InvalidInput, match="give the offset, or the part"):
        place_after(after)  # type: ignore[arg-type]


def test_places() -> None:
    assert [place_after(x) for x in (None, 0, 7, Part("x", "", 1, 4))] == [-1, 0, 7, 4]
