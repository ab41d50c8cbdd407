"""Secrets are not shown. The journal holds them, since a run cannot go on without; whatever shows a run to people, and
every error it records, has a mark in their place."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.core import events as e
from holdfast.core.failure import Failure
from holdfast.core.guards import is_dict, is_list
from holdfast.core.turn import Turn

HIDDEN = "•••"
SHORTEST = 4
"""A shorter secret is hidden where it stands alone, not inside other text."""


class Redaction:
    """Puts the mark in the place of some secrets. Without any it changes nothing, and is false."""

    def __init__(self, secrets: Iterable[Any] = ()) -> None:
        self._alone = frozenset(_leaves(secrets))
        within = sorted((text for text in self._alone if len(text) >= SHORTEST), key=lambda text: (-len(text), text))
        self._within = re.compile("|".join(map(re.escape, within))) if within else None

    def __bool__(self) -> bool:
        return bool(self._alone)

    def text(self, text: str) -> str:
        """The text without them."""
        if text in self._alone:
            return HIDDEN
        return text if self._within is None else self._within.sub(HIDDEN, text)

    def value(self, value: Any) -> Any:
        """A JSON value without them, however deep."""
        if isinstance(value, str):
            return self.text(value)
        if is_list(value):
            return [self.value(item) for item in value]
        if is_dict(value):
            return {key: self.value(item) for key, item in value.items()}
        return HIDDEN if _scalar(value) in self._alone else value

    def failure(self, failure: Failure) -> Failure:
        """A failure without them."""
        if not self:
            return failure
        return msgspec.structs.replace(
            failure,
            message=self.text(failure.message),
            traceback=self.text(failure.traceback),
            data=self._raw(failure.data),
        )

    def event(self, event: e.AnyEvent) -> e.AnyEvent:
        """A fact as it may be shown."""
        if isinstance(event, e.Adopted):
            facts: Any = tuple(self.event(fact) for fact in event.facts)
            return e.Adopted(facts=facts)
        if isinstance(event, e.Carrier):
            event = msgspec.structs.replace(event, value=self._raw(event.value))
        failure: Failure | None = getattr(event, "failure", None)
        return event if failure is None else msgspec.structs.replace(event, failure=self.failure(failure))

    def _raw(self, data: msgspec.Raw) -> msgspec.Raw:
        return msgspec.Raw(msgspec.json.encode(self.value(msgspec.json.decode(data)))) if bytes(data) else data

    def turn(self, turn: Turn) -> Turn:
        """A turn as it may be shown."""
        if not self:
            return turn
        return msgspec.structs.replace(turn, events=tuple(self.event(event) for event in turn.events))


def _leaves(values: Iterable[Any]) -> Iterable[str]:
    for value in values:
        if is_list(value):
            yield from _leaves(value)
        elif is_dict(value):
            yield from _leaves(value.values())
        elif value is not None and not isinstance(value, bool) and (text := _scalar(value)):
            yield text


def _scalar(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


NOTHING_HIDDEN = Redaction()
