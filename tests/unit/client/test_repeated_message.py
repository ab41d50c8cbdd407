"""A second message under one id: what counts as the same, and what is said of another."""

from __future__ import annotations

import msgspec
import pytest

from holdfast import Conflict
from holdfast.client.repeated_message import check_repeat
from holdfast.core import events as e
from holdfast.core.messages import encode_event
from holdfast.core.redacted import MARK
from holdfast.ports.inbox import Message, message

FIRST = e.SignalReceived(message="m", name="go", value=msgspec.Raw(b"1"), sender="ann", trace="00-1")


def check(kept: Message | None, sent: e.AnyEvent) -> None:
    check_repeat(kept, "m", encode_event(sent), "signal go")


@pytest.mark.parametrize(
    "kept",
    [
        FIRST,
        msgspec.structs.replace(FIRST, sender="bob", trace=""),
        msgspec.structs.replace(FIRST, value=msgspec.Raw(b"2"), replaced_by="operator"),
        msgspec.structs.replace(FIRST, value=msgspec.Raw(msgspec.json.encode(MARK))),
    ],
    ids=["same", "other sender", "replaced", "redacted"],
)
def test_a_repeat(kept: e.SignalReceived) -> None:
    """Contract: equality is by kind, name and encoded value; what an operator changed cannot be compared."""
    check(message("r", "m", "signal", kept), FIRST)
    check(None, FIRST)


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (msgspec.structs.replace(FIRST, value=msgspec.Raw(b"1.0")), "signal go with another value"),
        (msgspec.structs.replace(FIRST, value=msgspec.Raw(b"null"), blob="ab"), "signal go with another value"),
        (msgspec.structs.replace(FIRST, name="stop"), "signal stop"),
        (e.UpdateReceived(message="m", name="go", value=msgspec.Raw(b"1")), "update go"),
        (e.CancelRequested(message="m", reason=""), "a message of Holdfast's own"),
    ],
    ids=["value", "large value", "name", "kind", "cancel"],
)
def test_another_message(kept: e.AnyEvent, said: str) -> None:
    """Contract: `Conflict` names the run, the id, what it was used for, and what to do."""
    with pytest.raises(Conflict) as raised:
        check(message("r", "m", "signal", kept), FIRST)
    assert str(raised.value) == (
        f"run r: id 'm' was used for {said}, so signal go was not sent. Use a different id for a different message. "
        "What was sent: holdfast show r"
    )
