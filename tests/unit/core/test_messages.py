"""Messages between runs: one event each, and how a run's end looks to whoever waits for it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from holdfast.core import events as e
from holdfast.core.failure import Failure
from holdfast.core.messages import decode_event, encode_event, ended, ended_by, id_in_use, with_key
from holdfast.errors import CorruptJournal
from tests.support.examples import examples
from tests.unit.core.journals import BOOM, NOON, Journal, any_event, at, plain, raw


@examples(1000)
@given(any_event)
def test_a_message_comes_back_as_it_was_sent(event: Any) -> None:
    assert plain(decode_event(encode_event(event))) == plain(event)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"t":"nope"}', b'{"t":"done","key":"\xff"}'], ids=["empty", "array", "tag", "bytes"]
)
def test_what_is_no_message_is_said(body: bytes) -> None:
    with pytest.raises(CorruptJournal, match=r"^a message in the inbox does not decode: .") as caught:
        decode_event(body)
    assert caught.value.__cause__ is not None


ENDS: list[tuple[e.Terminal, e.ChildEnded]] = [
    (
        e.Completed(value=raw("5"), blob="abc"),
        e.ChildEnded(key="k", run="c", status="completed", value=raw("5"), blob="abc", ended_at=NOON),
    ),
    (e.Failed(failure=BOOM), e.ChildEnded(key="k", run="c", status="failed", failure=BOOM, ended_at=NOON)),
    (
        e.Cancelled(reason="left"),
        e.ChildEnded(key="k", run="c", status="cancelled", failure=Failure("Cancelled", "left"), ended_at=NOON),
    ),
]


@pytest.mark.parametrize(("end", "seen"), ENDS)
def test_an_end_as_a_parent_sees_it(end: e.Terminal, seen: e.ChildEnded) -> None:
    assert plain(ended("c", end, NOON, "k")) == plain(seen)


@pytest.mark.parametrize(("end", "seen"), ENDS)
def test_an_end_read_from_its_row(end: e.Terminal, seen: e.ChildEnded) -> None:
    row = Journal(run="c").claim(e.Patched(name="p"), end).rows[-1]
    found = ended_by(row, "k")
    assert found.ended_at == at(1)
    assert plain(found)[1] | {"ended_at": NOON} == plain(seen)[1]


def test_a_row_without_an_end_is_corruption() -> None:
    with pytest.raises(CorruptJournal, match=r"^run c: row 1 was committed as terminal and holds no end$"):
        ended_by(Journal(run="c").rows[0], "k")


def test_an_id_in_use_is_the_end_of_the_child_that_wanted_it() -> None:
    found = id_in_use("c", "other", "ship", "k")
    assert (found.key, found.run, found.status, found.ended_at) == ("k", "c", "failed", None)
    assert found.failure is not None
    assert found.failure.type.endswith("Conflict")
    assert found.failure.message == (
        "run id 'c' is in use by a run of workflow 'other', so it cannot be a child of workflow 'ship'. "
        "Give the child another id."
    )


def test_a_publication_gets_the_key_of_a_wait() -> None:
    news = e.TopicReceived(key="", message="m", name="news", value=raw('{"a": 1}'))
    assert plain(decode_event(with_key(encode_event(news), "w"))) == plain(
        e.TopicReceived(key="w", message="m", name="news", value=raw('{"a": 1}'))
    )
