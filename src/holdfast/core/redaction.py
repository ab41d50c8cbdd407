"""Hides secrets. The journal holds them, since a run needs them to continue; everything that shows a run to people, and
every recorded error, has a mark in their place.

A run that starts a flow has the flow's secrets in its own journal too: in the child's arguments, and a batch in the
inputs it reads. A turn therefore hides what it carries itself, besides what it is told to hide."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from holdfast.core import events as e
from holdfast.core.failure import Failure
from holdfast.core.guards import is_dict, is_list
from holdfast.core.turn import Turn

HIDDEN = "•••"
SHORTEST = 4
"""Length below which a secret is hidden only where it stands alone, not inside other text."""

_STARTS: Final = b"secrets"
"""Bytes that every payload with a start contains."""


class Redaction:
    """Replaces some secrets by the mark. Without secrets it changes nothing, and is false."""

    def __init__(self, secrets: Iterable[Any] = (), mark: str = HIDDEN) -> None:
        self._mark = mark
        self._alone = frozenset(_leaves(secrets))
        spelt = {form for text in self._alone if len(text) >= SHORTEST for form in _spellings(text)}
        within = sorted(spelt, key=lambda text: (-len(text), text))
        self._within = re.compile("|".join(map(re.escape, within))) if within else None

    def __bool__(self) -> bool:
        return bool(self._alone)

    def also(self, secrets: Iterable[Any]) -> Redaction:
        """Hides these secrets too."""
        added = [*secrets]
        return Redaction([*self._alone, *added], self._mark) if added else self

    def text(self, text: str) -> str:
        if text in self._alone:
            return self._mark
        return text if self._within is None else self._within.sub(self._mark, text)

    def is_in(self, text: str) -> bool:
        """Whether one of those that are hidden inside other text is in this one."""
        return self._within is not None and self._within.search(text) is not None

    def value(self, value: Any) -> Any:
        """A JSON value without them, however deep."""
        if isinstance(value, str):
            return self.text(value)
        if is_list(value):
            return [self.value(item) for item in value]
        if is_dict(value):
            return {key: self.value(item) for key, item in value.items()}
        return self._mark if _scalar(value) in self._alone else value

    def failure(self, failure: Failure) -> Failure:
        if not self:
            return failure
        return msgspec.structs.replace(
            failure,
            message=self.text(failure.message),
            traceback=self.text(failure.traceback),
            data=self._raw(failure.data),
        )

    def event(self, event: e.AnyEvent) -> e.AnyEvent:
        """An event that may be shown."""
        if isinstance(event, e.Adopted):
            facts: Any = tuple(self.event(fact) for fact in event.facts)
            return e.Adopted(facts=facts)
        if isinstance(event, e.Carrier):
            event = msgspec.structs.replace(event, value=self._raw(event.value))
        if isinstance(event, (e.AttributesSet, e.Started)) and event.attributes:
            event = msgspec.structs.replace(event, attributes=self.value(event.attributes))
        failure: Failure | None = getattr(event, "failure", None)
        return event if failure is None else msgspec.structs.replace(event, failure=self.failure(failure))

    def _raw(self, data: msgspec.Raw) -> msgspec.Raw:
        return msgspec.Raw(msgspec.json.encode(self.value(msgspec.json.decode(data)))) if bytes(data) else data

    def turn(self, turn: Turn) -> Turn:
        """A turn that may be shown: also without the secrets of the flows it starts."""
        hiding = self.also(secret for event in turn.events for secret in secrets_of(event))
        if not hiding:
            return turn
        return msgspec.structs.replace(turn, events=tuple(hiding.event(event) for event in turn.events))


def _leaves(values: Iterable[Any]) -> Iterable[str]:
    for value in values:
        if is_list(value):
            yield from _leaves(value)
        elif is_dict(value):
            yield from _leaves(value.values())
        elif value is not None and not isinstance(value, bool) and (text := _scalar(value)):
            yield text


def _spellings(text: str) -> Iterator[str]:
    """The secret as it is, and as it appears in the `repr` of a text, in JSON and in a URL, since errors quote it
    so."""
    yield text
    yield repr(text)[1:-1]
    yield msgspec.json.encode(text).decode()[1:-1]
    yield ascii(text)[1:-1]
    for spared in ("", "/"):
        addressed = re.sub(f"[^A-Za-z0-9_.~{spared}-]", _percent, text)
        yield addressed
        yield addressed.replace("%20", "+")


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "replace"))


def secrets_of(event: e.AnyEvent) -> Iterator[Any]:
    """Secrets in the starts of flows that an event holds."""
    if isinstance(event, e.Adopted):
        for fact in event.facts:
            yield from secrets_of(fact)
    elif isinstance(event, e.Carrier) and _STARTS in bytes(event.value):
        yield from _started_with(msgspec.json.decode(event.value))


def _started_with(value: Any) -> Iterator[Any]:
    """Values of secret variables, wherever a flow's start appears in a JSON value, or in a text that is JSON."""
    if isinstance(value, str) and value.startswith("{") and _STARTS.decode() in value:
        try:
            value = msgspec.json.decode(value)
        except msgspec.MsgspecError:
            return
    if is_list(value):
        for item in value:
            yield from _started_with(item)
    elif is_dict(value):
        names, variables = value.get("secrets"), value.get("vars")
        if is_list(names) and is_dict(variables):
            yield from (variables[name] for name in names if isinstance(name, str) and name in variables)
        for item in value.values():
            yield from _started_with(item)


def _scalar(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


NOTHING_HIDDEN = Redaction()
