"""The part of a run's fold that concerns others: what they sent to it, and what it exposes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from holdfast.core import events as e


class Mailbox(msgspec.Struct, omit_defaults=True, gc=False):
    """Signals and updates that no wait has taken, updates without an answer, exposed values, attributes."""

    id: str
    attributes: dict[str, str] = {}
    buffered: dict[str, e.SignalReceived | e.UpdateReceived] = {}
    asked: dict[str, str] = {}  # updates that were neither answered nor refused, by message: their names
    exposed: dict[str, e.Exposed] = {}
    after: tuple[str, ...] = ()  # runs that must end before this one begins
    latest: datetime | None = None  # see `Started`
    most: int = 0
    given: int = 0  # inputs that came after the first
    redacted: tuple[e.Redacted, ...] = ()  # what was removed after its end

    def forget_taken(self) -> None:
        """Keeps only those unanswered updates that no wait has taken."""
        self.asked = {message: name for message, name in self.asked.items() if message in self.buffered}


def received(box: Mailbox, event: e.UpdateReceived, at: datetime) -> None:
    box.buffered[event.message] = event
    box.asked[event.message] = event.name


def answered(box: Mailbox, event: e.Answered, at: datetime) -> None:
    box.asked.pop(event.message, None)


def dropped(box: Mailbox, event: e.MessageDropped, at: datetime) -> None:
    """An operator dropped a message."""
    box.buffered.pop(event.message, None)
    box.asked.pop(event.message, None)


def preceded(box: Mailbox, event: e.PredecessorEnded, at: datetime) -> None:
    """A run that had to end first has ended."""
    box.after = tuple(run for run in box.after if run != event.run)


def redacted(box: Mailbox, event: e.Redacted, at: datetime) -> None:
    """A person removed values from it."""
    box.redacted = (*box.redacted, event)


def given(box: Mailbox, event: e.InputGiven, at: datetime) -> None:
    """A call joined it."""
    box.given += 1


def exposed(box: Mailbox, event: e.Exposed, at: datetime) -> None:
    box.exposed[event.name] = event


def attributes_set(box: Mailbox, event: e.AttributesSet, at: datetime) -> None:
    apply_attributes(box.attributes, event.attributes)


def apply_attributes(attributes: dict[str, str], changed: Mapping[str, str | None]) -> None:
    """Sets attributes that have a value, and removes those that have none."""
    for name, value in changed.items():
        if value is None:
            attributes.pop(name, None)
        else:
            attributes[name] = value
