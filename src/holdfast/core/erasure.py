"""Takes values out of what is kept of a run: those at some paths, and every copy of them. Pure.

A path begins with a *place*, and may continue inside the value there, by the keys of objects and the numbers of items
(`*`: all of them). A path may also stop before a place: `steps.charge` is all that is kept of that step.

::

    input                                       what the run was started with, and continued with
    steps.KEY.input|result|error|progress       a step
    children.KEY.input|result|error             a child
    result · error                              how the run ended
    signals.NAME · updates.NAME · topics.NAME   what it was sent
    answers.ID · sent.NAME · given.ID           what it answered and sent; inputs that joined it
    values.NAME · attributes.NAME               what it shows, and is found by
    streams.NAME.NUMBER                         parts of a stream

Copies are found by what they say: a text or a number of at least four characters also inside other text, a shorter
text only where it stands alone, a shorter number, true and false not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.core import events as e
from holdfast.core.commands import carry
from holdfast.core.failure import NO_DATA, Failure
from holdfast.core.guards import is_dict, is_list
from holdfast.core.redacted import MARK
from holdfast.core.redaction import SHORTEST, Redaction
from holdfast.core.references import BlobRef, names_of, payload_of, references_in
from holdfast.core.run import Run
from holdfast.core.turn import Turn

LISTED: Final = 500
"""Maximum number of paths that a hint chooses from."""

_REFERENCE: Final = frozenset(BlobRef.__struct_fields__)

_TEXTS: Final = ("reason", "detail", "actor", "sender", "replaced_by")
"""Fields of events with words of people."""


def place_of(event: e.Event) -> str:
    """Where the payload of an event is; empty if it has none."""
    match event:
        case e.Started() | e.Continued():
            return "input"
        case e.InputGiven():
            return f"given.{event.message}"
        case e.StepScheduled():
            return f"steps.{event.key}.input"
        case e.StepCompleted():
            return f"steps.{event.key}.result"
        case e.ChildStarted():
            return f"children.{event.key}.input"
        case e.ChildEnded():
            return f"children.{event.key}.result"
        case e.UpdateReceived():
            return f"updates.{event.name}"
        case e.SignalReceived():
            return f"signals.{event.name}"
        case e.TopicReceived():
            return f"topics.{event.name}"
        case e.MessageSent():
            return f"sent.{event.name}"
        case e.Exposed():
            return f"values.{event.name}"
        case e.Answered():
            return f"answers.{event.message}"
        case e.Completed():
            return "result"
        case _:
            return ""


def place_of_failure(event: e.Event) -> str:
    """Where the error that an event tells is."""
    match event:
        case e.StepFailed() | e.AttemptFailed():
            return f"steps.{event.key}.error"
        case e.ChildEnded():
            return f"children.{event.key}.error"
        case _:
            return "error"


class Erasure:
    """Takes values out of payloads. It first learns what is at the paths (`learn`, of everything that is kept), then
    takes it out everywhere (`events`, `payload`, `text`). `places` are the places where something was taken out."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths: tuple[str, ...] = tuple(paths)
        self.places: dict[str, None] = {}
        self.known: dict[str, None] = {}
        self.blobs: dict[str, bytes] = {}
        """Payloads of changed events that are too large for a row."""
        self._found: set[str] = set()
        self._taken: list[Any] = []
        self._redaction: Redaction | None = None

    @property
    def missing(self) -> list[str]:
        """The paths at which nothing was found."""
        return [path for path in self.paths if path not in self._found]

    @property
    def redaction(self) -> Redaction:
        """Finds copies of what was found at the paths."""
        if self._redaction is None:
            self._redaction = Redaction([one for value in self._taken for one in _leaves(value)], MARK)
        return self._redaction

    # -- learning ------------------------------------------------------------------------------------------------------

    def learn(self, place: str, value: Any) -> None:
        """Sees a value at its place, as plain JSON."""
        if len(self.known) < LISTED:
            self.known.update(dict.fromkeys(_paths(place, value)))
        self._cut(place, value)
        self._redaction = None

    def learn_event(self, event: e.AnyEvent, blobs: Mapping[str, bytes]) -> None:
        """Sees everything that an event holds."""
        if isinstance(event, e.Adopted):
            for fact in event.facts:
                self.learn_event(fact, blobs)
            return
        if isinstance(event, e.Carrier) and (place := place_of(event)) and (data := _payload(event, blobs)):
            self.learn(place, msgspec.json.decode(data))
        failure: Failure | None = getattr(event, "failure", None)
        if failure is not None:
            self.learn(place_of_failure(event), _words(failure))
            if bytes(failure.data):
                self.learn(place_of_failure(event), msgspec.json.decode(failure.data))
        if isinstance(event, e.AttemptFailed) and bytes(event.progress) != b"null":
            self.learn(f"steps.{event.key}.progress", msgspec.json.decode(event.progress))
        if isinstance(event, e.Cancelled) and event.reason:
            self.learn("error", event.reason)
        if isinstance(event, e.Started | e.AttributesSet):
            for name, text in event.attributes.items():
                self.learn(f"attributes.{name}", text)

    # -- taking out ----------------------------------------------------------------------------------------------------

    def turn(self, turn: Turn, blobs: Mapping[str, bytes]) -> Turn:
        """A turn without the values. Its checksum is that of the turn before."""
        return msgspec.structs.replace(turn, events=tuple(self.event(event, blobs) for event in turn.events))

    def event(self, event: e.AnyEvent, blobs: Mapping[str, bytes]) -> Any:
        """An event without the values. Payloads come from `blobs` if they are there, and say what they refer to."""
        if isinstance(event, e.Adopted):
            return e.Adopted(facts=tuple(self.event(fact, blobs) for fact in event.facts))
        changed: dict[str, Any] = {}
        if isinstance(event, e.Carrier):
            changed |= self._carried(event, blobs)
        failure: Failure | None = getattr(event, "failure", None)
        if failure is not None:
            changed["failure"] = self._failure(place_of_failure(event), failure)
        if isinstance(event, e.AttemptFailed):
            changed["progress"] = msgspec.Raw(self.payload(f"steps.{event.key}.progress", bytes(event.progress)))
        if isinstance(event, e.StepScheduled):
            changed["hashed"] = ""  # the hash of a short value gives the value away
        if isinstance(event, e.Started | e.AttributesSet):
            named = event.attributes.items()
            changed["attributes"] = {name: self._attribute(name, text) for name, text in named}
        where = "error" if isinstance(event, e.Cancelled) else str(type(event).__struct_config__.tag)
        for name in _TEXTS:
            if text := getattr(event, name, ""):
                changed[name] = self.text(where, text)
        return msgspec.structs.replace(event, **changed) if changed else event

    def run(self, run: Run, blobs: Mapping[str, bytes]) -> None:
        """Takes the values out of a fold that was stored."""
        run.attributes = {name: self.text(f"attributes.{name}", text) for name, text in run.attributes.items()}
        run.buffered = {message: self.event(event, blobs) for message, event in run.buffered.items()}
        run.exposed = {name: self.event(event, blobs) for name, event in run.exposed.items()}
        for step in run.steps.values():
            if step.last is not None:
                step.last = self._failure(f"steps.{step.key}.error", step.last)
            step.progress = self.payload(f"steps.{step.key}.progress", step.progress)
        run.retry = run.retry and self.event(run.retry, blobs)
        run.cancel = run.cancel and self.event(run.cancel, blobs)
        run.paused = run.paused and self.event(run.paused, blobs)

    def payload(self, place: str, data: bytes) -> bytes:
        """A payload without the values: the same bytes if there were none."""
        if not data or data == b"null":
            return data
        value = msgspec.json.decode(data)
        without = self._erased(self._cut(place, value))
        if without == value:
            return data
        self.places[place] = None
        return msgspec.json.encode(without)

    def text(self, place: str, text: str) -> str:
        """A text without the values."""
        without: str = self._erased(self._cut(place, text))
        if without != text:
            self.places[place] = None
        return without

    def _attribute(self, name: str, text: str | None) -> str | None:
        return None if text is None else self.text(f"attributes.{name}", text)

    def _carried(self, event: e.Carrier, blobs: Mapping[str, bytes]) -> dict[str, Any]:
        data = _payload(event, blobs)
        place = place_of(event) or str(type(event).__struct_config__.tag)
        if (without := self.payload(place, data)) is not data:
            value, blob, refs = carry(without, self.blobs)
            whole = {"pieces": ()} if isinstance(event, e.StepScheduled) else {}
            return {"value": value, "blob": blob, "refs": refs, **whole}
        return {"refs": event.refs or references_in(data)}

    def _failure(self, place: str, failure: Failure) -> Failure:
        words = _words(failure)
        cut = self._cut(place, words)
        without = dict.fromkeys(words, MARK) if cut == MARK else self._erased(cut)
        data = self.payload(place, bytes(failure.data)) if bytes(failure.data) else b""
        if without == words and data == bytes(failure.data):
            return failure
        self.places[place] = None
        return Failure(failure.type, without["message"], without.get("traceback", ""), data=NO_DATA)

    def _cut(self, place: str, value: Any) -> Any:
        """The value with marks at the paths."""
        for path in self.paths:
            if place == path or place.startswith(f"{path}."):
                value = self._take(path, value)
            elif path.startswith(f"{place}."):
                value = self._within(path, path[len(place) + 1 :], value)
        return value

    def _within(self, path: str, rest: str, value: Any) -> Any:
        if is_list(value):
            return [self._item(path, rest, str(number), item) for number, item in enumerate(value)]
        if is_dict(value):
            return {key: self._item(path, rest, key, item) for key, item in value.items()}
        return value

    def _item(self, path: str, rest: str, key: str, item: Any) -> Any:
        for name in (key, "*"):
            if rest == name:
                return self._take(path, item)
            if rest.startswith(f"{name}."):
                return self._within(path, rest[len(name) + 1 :], item)
        return item

    def _take(self, path: str, value: Any) -> Any:
        if value != MARK:
            self._found.add(path)
            if self._redaction is None:
                self._taken.append(value)
        return MARK

    def _erased(self, value: Any) -> Any:
        """The value without copies, also in the keys of objects."""
        if is_list(value):
            return [self._erased(item) for item in value]
        if is_dict(value):
            if (name := _blob_of(value)) is not None:
                return MARK if self.redaction.text(name) != name else value
            return {self.redaction.text(key): self._erased(item) for key, item in value.items()}
        return self.redaction.value(value)


def _payload(event: e.Carrier, blobs: Mapping[str, bytes]) -> bytes:
    """The payload; null if any of its blobs is missing, which `blobs` says by null."""
    if any(blobs[name] == b"null" for name in names_of(event)):
        return b"null"
    return payload_of(event, blobs)


def _words(failure: Failure) -> dict[str, str]:
    words = {"message": failure.message, "traceback": failure.traceback}
    return {name: text for name, text in words.items() if text}


def _blob_of(value: Mapping[Any, Any]) -> str | None:
    """The name of the blob, if the value is a reference to one."""
    names = references_in(msgspec.json.encode(value)) if frozenset(value) == _REFERENCE else ()
    return names[0] if names else None


def _leaves(value: Any) -> Iterator[Any]:
    """What identifies copies of a value: its texts and longer numbers."""
    if is_list(value):
        for item in value:
            yield from _leaves(item)
    elif is_dict(value):
        name = _blob_of(value)
        yield from _leaves(list(value.values()) if name is None else name)
    elif isinstance(value, str):
        if value != MARK:
            yield value
    elif not isinstance(value, bool | None) and len(str(value)) >= SHORTEST:
        yield value


def _paths(place: str, value: Any, depth: int = 3) -> Iterator[str]:
    """The paths of a value, a few levels deep."""
    yield place
    if is_dict(value) and depth:
        for key, item in value.items():
            yield from _paths(f"{place}.{key}", item, depth - 1)
