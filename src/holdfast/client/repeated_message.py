"""A message whose id was used before: the same one again, or a different one that its sender must hear of."""

from __future__ import annotations

from holdfast.core import events as e
from holdfast.core.messages import decode_event
from holdfast.core.redacted import is_redacted
from holdfast.errors import Conflict
from holdfast.ports.inbox import Message

_WORDS = {e.SignalReceived: "signal", e.UpdateReceived: "update", e.TopicReceived: "topic"}


def check_repeat(kept: Message | None, id: str, body: bytes, what: str) -> None:
    """Raises `Conflict` if something else was sent under this id: another kind of message, name or value. Who sent it
    makes no difference, nor when. What is no longer kept counts as the same."""
    if kept is None:
        return
    before, now = decode_event(kept.body), decode_event(body)
    if not isinstance(before, e.SignalReceived | e.TopicReceived):
        used = "a message of Holdfast's own"
    elif type(before) is not type(now) or before.name != getattr(now, "name", ""):
        used = f"{_WORDS[type(before)]} {before.name}"
    elif _is_same_value(before, now):
        return
    else:
        used = f"{_WORDS[type(before)]} {before.name} with another value"
    raise Conflict(
        f"run {kept.run}: id {id!r} was used for {used}, so {what} was not sent. Use a different id for a different "
        f"message. What was sent: holdfast show {kept.run}"
    )


def _is_same_value(before: e.SignalReceived | e.TopicReceived, now: e.AnyEvent) -> bool:
    """By the encoded value. If an operator replaced or redacted it, what was sent cannot be known."""
    if is_redacted(before.value) or (isinstance(before, e.SignalReceived) and before.replaced_by):
        return True
    return isinstance(now, e.Carrier) and (bytes(before.value), before.blob) == (bytes(now.value), now.blob)
