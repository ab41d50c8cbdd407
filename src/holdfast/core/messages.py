"""What a message to a run holds: one encoded event. Senders, stores and the engine build and read it here."""

from __future__ import annotations

from datetime import datetime

import msgspec

from holdfast.core import events as e
from holdfast.core.failure import Failure, type_name
from holdfast.core.turn import UNREADABLE, Row, decode_row
from holdfast.errors import Conflict, CorruptJournal

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[e.AnyEvent] = msgspec.json.Decoder(e.AnyEvent)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_topic = msgspec.json.Decoder(e.TopicReceived)
_settled = msgspec.json.Decoder(e.SendSettled)


def encode_event(event: e.AnyEvent) -> bytes:
    """One event, as a message carries it."""
    return _encoder.encode(event)


def decode_event(body: bytes) -> e.AnyEvent:
    """The inverse of `encode_event`."""
    try:
        return _decoder.decode(body)
    except UNREADABLE as error:
        raise CorruptJournal(f"a message in the inbox does not decode: {error}") from error


def ended(run: str, event: e.Terminal, at: datetime | None, key: str) -> e.ChildEnded:
    """The end of a run as an event for a run that waits for it under `key`."""
    match event:
        case e.Completed():
            value, blob, refs = event.value, event.blob, event.refs
            return e.ChildEnded(key=key, run=run, status="completed", value=value, blob=blob, refs=refs, ended_at=at)
        case e.Failed():
            return e.ChildEnded(key=key, run=run, status="failed", failure=event.failure, ended_at=at)
        case e.Cancelled():
            failure = Failure(type="Cancelled", message=event.reason)
            return e.ChildEnded(key=key, run=run, status="cancelled", failure=failure, ended_at=at)


def ended_by(row: Row, key: str) -> e.ChildEnded:
    """Like `ended`, from the run's terminal row."""
    turn = decode_row(row)
    for event in turn.events:
        if isinstance(event, e.Completed | e.Failed | e.Cancelled):
            return ended(row.run, event, turn.at, key)
    raise CorruptJournal(f"run {row.run}: row {row.ordinal} was committed as terminal and holds no end")


def told_at_end(row: Row, key: str) -> e.ChildEnded | e.PredecessorEnded:
    """The message to a run that waits for this end: the end of its child, or, without a key, that it may begin."""
    return ended_by(row, key) if key else e.PredecessorEnded(run=row.run)


END_OF = "end of "
"""How the id of the message begins that tells a parent of the end of its child."""

_AFTER = "ended::"

_UNDELIVERED = "undelivered "

OWN_MESSAGES = (END_OF, _AFTER, _UNDELIVERED)
"""How ids of messages begin that only Holdfast sends."""


def predecessor_message(run: str) -> str:
    """The id of the message that tells a run of the end of one that had to end first."""
    return f"{_AFTER}{run}"


def id_in_use(run: str, its_workflow: str, workflow: str, key: str) -> e.ChildEnded:
    """The end of a child that could not be started: its id belongs to a run of another workflow."""
    failure = Failure(
        type_name(Conflict),
        f"run id {run!r} is in use by a run of workflow {its_workflow!r}, so it cannot be a child of workflow "
        f"{workflow!r}. Give the child another id.",
    )
    return e.ChildEnded(key=key, run=run, status="failed", failure=failure)


def with_status(reply: bytes, status: str) -> bytes:
    """A message's `reply`, with the reason why it was not delivered."""
    whole = _encoder.encode({**_fields.decode(reply), "status": status})
    return _encoder.encode(_settled.decode(whole))


def undelivered_id(reply: bytes) -> str:
    """The id of the message that tells a run the outcome of one it sent. Of the place in its journal, since it may send
    several messages under one id."""
    settled = _settled.decode(reply)
    return f"{_UNDELIVERED}{settled.ordinal}:{settled.key}"


def with_key(body: bytes, key: str) -> bytes:
    """A publication's `TopicReceived` with the key of one wait filled in."""
    whole = _encoder.encode({**_fields.decode(body), "key": key})
    return _encoder.encode(_topic.decode(whole))
