"""The base of all events of a journal."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, TypeAlias

import msgspec

NULL = msgspec.Raw(b"null")

Instant: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time with its zone. A row with a naive time does not decode."""


EndStatus: TypeAlias = Literal["completed", "failed", "cancelled"]
MessageKind: TypeAlias = Literal["signal", "topic", "update"]
"""What a run can wait for that others send."""

AnswerOutcome: TypeAlias = Literal["answered", "refused", "left"]
"""How a run settles an update: with a value, with a reason, or by leaving it without either."""

PauseReason: TypeAlias = Literal["quarantined", "diverged", "undecodable", "never waits", "stuck", "operator"]


class Event(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="t", gc=False):
    """One immutable fact."""


class Span(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Parts that one attempt sent to a stream: from offset `first` to before `end`. Parts of others may lie between."""

    name: str
    attempt: int
    first: int
    end: int


class Carrier(Event, frozen=True):
    """An event with a payload."""

    value: msgspec.Raw = NULL
    blob: str = ""
    refs: tuple[str, ...] = ()
