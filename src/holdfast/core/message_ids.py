"""Ids of messages: which a caller may choose, and what the id of an earlier message was used for, if the next one under
it is another message."""

from __future__ import annotations

from holdfast.core import events as e
from holdfast.core.ids import check_id
from holdfast.core.messages import OWN_MESSAGES, decode_event
from holdfast.core.redacted import is_redacted
from holdfast.errors import CorruptJournal, InvalidId

_WORDS = {e.SignalReceived: "signal", e.UpdateReceived: "update", e.TopicReceived: "topic"}


def check_message_id(value: object, what: str = "message id") -> str:
    """Returns a caller's id of a message. Raises `InvalidId` for one under which Holdfast itself sends messages: the
    run would take the caller's for it, and wait forever for the real one."""
    chosen = check_id(value, what)
    if chosen.startswith(OWN_MESSAGES):
        starts = " or ".join(f"{start!r}" for start in OWN_MESSAGES)
        raise InvalidId(f"{what}: {chosen!r} is an id of Holdfast's own. Choose one that does not begin with {starts}.")
    return chosen


def other_use(kept: bytes, body: bytes) -> str:
    """What the id was used for if the kept message is another one: of another kind, name or value. Empty if it is the
    same. Who sent it makes no difference, nor when. What cannot be read counts as the same."""
    try:
        before, now = decode_event(kept), decode_event(body)
    except CorruptJournal:
        return ""
    if not isinstance(before, e.SignalReceived | e.TopicReceived):
        return "a message of Holdfast's own"
    if type(before) is not type(now) or before.name != getattr(now, "name", ""):
        return f"{_WORDS[type(before)]} {before.name}"
    if _is_same_value(before, now):
        return ""
    return f"{_WORDS[type(before)]} {before.name} with another value"


def _is_same_value(before: e.SignalReceived | e.TopicReceived, now: e.AnyEvent) -> bool:
    """By the encoded value. If an operator replaced or redacted it, what was sent cannot be known."""
    if is_redacted(before.value) or (isinstance(before, e.SignalReceived) and before.replaced_by):
        return True
    return isinstance(now, e.Carrier) and (bytes(before.value), before.blob) == (bytes(now.value), now.blob)
