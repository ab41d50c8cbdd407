"""The facts of a journal: every kind comes back as it was written, and their words are stored forever."""

from __future__ import annotations

import typing
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import events as e
from holdfast.core.failure import Failure
from holdfast.core.turn import Row, decode_row, encode_events
from holdfast.errors import CorruptJournal
from tests.support.examples import examples
from tests.unit.core.journals import EVENTS, NOON, any_event, events_of, plain, raw

TAGS = {
    e.Started: "started", e.Compacted: "compacted", e.Adopted: "adopted", e.Claimed: "claimed",
    e.Released: "released",
    e.Limited: "limited",
    e.UpdateReceived: "update", e.Answered: "answered", e.AttributesSet: "attributes",
    e.HeldBack: "held_back", e.StepCompleted: "done",
    e.AttemptFailed: "attempt_failed", e.AttemptStarted: "attempt", e.StepFailed: "step_failed", e.TimerFired: "fired",
    e.SendSettled: "settled",
    e.SignalReceived: "signal", e.TopicReceived: "topic", e.ChildEnded: "child_ended", e.CancelRequested: "cancel",
    e.DeadlineReached: "deadline", e.PassStarted: "pass", e.Paused: "paused", e.Resumed: "resumed",
    e.MessageDropped: "dropped", e.PredecessorEnded: "predecessor",
    e.InputGiven: "input",
    e.StepScheduled: "step", e.StepAbandoned: "abandoned", e.SleepStarted: "sleep", e.WaitStarted: "wait",
    e.WaitEnded: "wait_ended", e.ChildStarted: "child", e.MessageSent: "sent", e.Exposed: "exposed",
    e.Streamed: "streamed",
    e.Patched: "patched", e.Entered: "entered", e.Kept: "kept", e.Completed: "completed", e.Failed: "failed",
    e.Cancelled: "cancelled",
    e.RetryPlanned: "retry", e.Continued: "continued",
}  # fmt: skip


def decoded(body: bytes) -> tuple[e.AnyEvent, ...]:
    return decode_row(Row("r", 1, 0, 0, 1, b"", body)).events


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
def test_an_event_comes_back_as_it_was_written(kind: type[e.Event]) -> None:
    """Contract: decoding what was encoded gives the same type with the same fields, payload bytes included."""

    @examples(1000)
    @given(events_of(kind))
    def check(event: Any) -> None:
        [back] = decoded(encode_events([event]))
        assert type(back) is kind
        assert plain(back) == plain(event)

    check()


@examples(1000)
@given(st.lists(any_event, max_size=5))
def test_the_events_of_a_row_keep_their_order(events: list[Any]) -> None:
    assert plain(decoded(encode_events(events))) == plain(events)


def test_the_words_of_the_journal_are_fixed() -> None:
    """Contract: a tag is never changed, only lifted by an upcaster: old journals must stay readable."""
    assert {kind: kind.__struct_config__.tag for kind in EVENTS} == TAGS


def test_every_event_is_either_an_input_or_an_output() -> None:
    """Contract: the union that is decoded and the tables that are matched name the same kinds."""
    assert set(typing.get_args(e.AnyEvent)) == set(EVENTS)
    assert set(typing.get_args(e.Input)) == set(e.INPUTS)
    assert set(typing.get_args(e.Output)) == set(e.OUTPUTS)
    assert set(typing.get_args(e.Terminal)) == set(e.TERMINAL)
    assert len(EVENTS) == len(set(EVENTS))


def test_an_event_does_not_change() -> None:
    event = e.StepCompleted(key="charge")
    with pytest.raises(AttributeError):
        event.key = "refund"  # type: ignore[misc]


def test_a_small_event_takes_few_bytes() -> None:
    """Contract: what has its default is not written; a step stays far under 250 bytes."""
    assert encode_events([e.StepScheduled(key="charge")]) == b'[{"t":"step","key":"charge"}]'
    assert encode_events([e.StepCompleted(key="charge")]) == b'[{"t":"done","key":"charge"}]'


def test_a_stored_null_is_a_value() -> None:
    """Contract: a step that returned None has completed; its payload reads as null (stem: absence is not null)."""
    [event] = decoded(b'[{"t":"done","key":"a"}]')
    assert isinstance(event, e.StepCompleted)
    assert bytes(event.value) == b"null"
    assert event.blob == ""


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"{}", b"[1]", b'["done"]', b"[{}]",
        b'[{"t":"nope","key":"a"}]', b'[{"t":"done"}]', b'[{"t":"done","key":1}]',
        b'[{"t":"paused","reason":"tired"}]', b'[{"t":"wait","key":"a","name":"b","kind":"call"}]',
        b'[{"t":"child_ended","key":"a","run":"b","status":"running"}]',
        b'[{"t":"sleep","key":"a","until":"soon"}]', b'[{"t":"sleep","key":"a","until":"2026-01-01T00:00:00"}]',
        b'[{"t":"done","key":"\xff"}]', b'[{"t":"done","key":"a","value":' + b"[" * 100_000,
        b'[{"t":"adopted","facts":[{"t":"completed"}]}]',
    ],
    ids=lambda body: ascii(body[:40]).replace("\\", "/"),
)  # fmt: skip
def test_what_is_no_event_does_not_decode(body: bytes) -> None:
    """Contract: bytes that are no events are a CorruptJournal that names the run and the row, never another error."""
    with pytest.raises(CorruptJournal, match=r"^run r: row 1 does not decode: .+") as caught:
        decoded(body)
    assert caught.value.__cause__ is not None


def test_an_instant_has_its_zone() -> None:
    """Contract: a time without a zone is refused, it could mean anything (O46: a malformed wake time never elapses)."""
    [event] = decoded(b'[{"t":"sleep","key":"a","until":"2026-01-01T14:00:00+02:00"}]')
    assert isinstance(event, e.SleepStarted)
    assert event.until == NOON


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
def test_every_instant_of_an_event_is_checked(kind: type[e.Event]) -> None:
    hints = typing.get_type_hints(kind, include_extras=True)
    bare = [name for name, hint in hints.items() if hint in (datetime, datetime | None)]
    assert not bare


def test_unknown_fields_are_let_pass() -> None:
    """Contract: a row with a field this code does not know still reads (a newer one added it without a new format)."""
    assert plain(decoded(b'[{"t":"fired","key":"a","colour":"red"}]')) == plain([e.TimerFired(key="a")])


def test_defaults_are_as_agreed() -> None:
    """Contract: fields that are not written mean this, forever."""
    assert plain(decoded(b'[{"t":"started","workflow":"w"}]')) == plain(
        [
            e.Started(
                workflow="w", version="", code="", codec="", queue="default", priority=0, key="", available_at=None,
                deadline=None, parent="", parent_key="", root="", on_cancel="", attributes={}, retried_from="",
                value=raw("null"), blob="",
            )
        ]
    )  # fmt: skip
    assert plain(decoded(b'[{"t":"child","key":"a","run":"b","workflow":"w"}]')) == plain(
        [
            e.ChildStarted(
                key="a", run="b", workflow="w", version="", queue="", until=None, on_cancel="", awaited=True,
                value=raw("null"), blob="",
            )
        ]
    )  # fmt: skip
    assert plain(decoded(b'[{"t":"wait","key":"a","name":"go"}]')) == plain(
        [e.WaitStarted(key="a", name="go", kind="signal", until=None)]
    )
    assert plain(decoded(b'[{"t":"step_failed","key":"a","failure":{"type":"T","message":"m"}}]')) == plain(
        [e.StepFailed(key="a", failure=Failure("T", "m"), attempts=1)]
    )
