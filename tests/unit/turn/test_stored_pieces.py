"""Pieces that the journal of the run refers to are not sent again; any other is."""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast.core import events as e
from holdfast.turn.draft import Draft
from holdfast.turn.stored_pieces import StoredPieces

AT = datetime(2026, 1, 1, tzinfo=UTC)


def draft(*names: str, step: str = "s", end: e.AnyEvent | None = None) -> Draft:
    asked = e.StepScheduled(key=step, pieces=names)
    return Draft(AT, [], [asked, end] if end else [asked], blobs={name: name.encode() for name in names})


def sent(pieces: StoredPieces, turn: Draft) -> set[str]:
    pieces.leave_out(turn)
    return set(turn.blobs)


def test_what_is_durable_is_left_out() -> None:
    """Promise: only what the last durable call of the same step has is left out; a call that was not durable counts for
    nothing."""
    pieces = StoredPieces()
    first = draft("a", "b")
    assert sent(pieces, first) == {"a", "b"}
    assert sent(pieces, draft("a", "c")) == {"a", "c"}
    pieces.learn(first)
    assert sent(pieces, draft("a", "c")) == {"c"}
    assert sent(pieces, draft("a", "b", step="other")) == {"a", "b"}
    second = draft("a", "c")
    pieces.leave_out(second)
    pieces.learn(second)
    assert sent(pieces, draft("a", "b", "c")) == {"b"}


def test_a_new_pass_sends_everything() -> None:
    """Promise: what the pass before `continue_as` recorded may be compacted and collected, so it is sent again."""
    pieces = StoredPieces()
    pieces.learn(draft("a", end=e.Continued(workflow="w")))
    assert sent(pieces, draft("a")) == {"a"}
