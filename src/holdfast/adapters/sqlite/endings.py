"""What is told about the end of a child, as encoded events for the inbox of whoever waits. Pure."""

from __future__ import annotations

import msgspec

from holdfast.core import events as e
from holdfast.core.failure import Failure, type_name
from holdfast.core.turn import Row, decode_row
from holdfast.errors import Conflict, CorruptJournal

_encoder = msgspec.json.Encoder()
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_topic = msgspec.json.Decoder(e.TopicReceived)


def ending(row: Row, key: str) -> bytes:
    """The `ChildEnded` for the wait `key`, from the terminal row of the child."""
    turn = decode_row(row)
    for event in turn.events:
        match event:
            case e.Completed():
                return _encoder.encode(
                    e.ChildEnded(
                        key=key, run=row.run, status="completed", value=event.value, blob=event.blob, ended_at=turn.at
                    )
                )
            case e.Failed():
                return _encoder.encode(
                    e.ChildEnded(key=key, run=row.run, status="failed", failure=event.failure, ended_at=turn.at)
                )
            case e.Cancelled():
                return _encoder.encode(e.ChildEnded(key=key, run=row.run, status="cancelled", ended_at=turn.at))
            case _:
                pass
    raise CorruptJournal(f"run {row.run}: row {row.ordinal} was committed as terminal and holds no end")


def conflict(run: str, its_workflow: str, workflow: str, key: str) -> bytes:
    """The failed `ChildEnded` for a child whose id belongs to a run of another workflow."""
    failure = Failure(
        type_name(Conflict),
        f"run id {run!r} is in use by a run of workflow {its_workflow!r}, so it cannot be a child of workflow "
        f"{workflow!r}. Give the child another id.",
    )
    return _encoder.encode(e.ChildEnded(key=key, run=run, status="failed", failure=failure))


def with_key(body: bytes, key: str) -> bytes:
    """A publication's `TopicReceived` with the key of one wait filled in."""
    whole = _encoder.encode({**_fields.decode(body), "key": key})
    return _encoder.encode(_topic.decode(whole))
