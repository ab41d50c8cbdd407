"""States as JSON: `{"Quoting": {…}}`, distinguished by label and decoded by class.

A union of dataclasses is distinguished by fields, and two states may have the same fields. A label from before a rename
can still be read.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.authoring.machine.marks import Again, More, is_more
from holdfast.core.codec import Codec, compile_codec
from holdfast.core.payload import Arguments, Shape
from holdfast.core.schemas import JsonSchema, joined, under_tag
from holdfast.errors import InvalidArguments, InvalidState, NotDecodable

MORE = "+more"
AGAIN = "+again"

_tagged = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encode = msgspec.json.encode


class States:
    """The states of one machine, by class and by label."""

    def __init__(self, machine: str, labels: Mapping[type, str], was: Mapping[str, type]) -> None:
        self.machine = machine
        self._labels = dict(labels)
        self._shapes: dict[type, Shape[Any]] = {
            cls: Shape(cls, what=f"machine {machine}, state {label}") for cls, label in labels.items()
        }
        self._by_label: dict[str, type] = {**was, **{label: cls for cls, label in labels.items()}}

    def label_of(self, state: object) -> str | None:
        """The label of a state; None for anything else."""
        return self._labels.get(type(state))

    def encode(self, state: Any, path: str = "") -> bytes:
        """A state's own data."""
        return self._shapes[type(state)].encode(state, path)

    def decode(self, label: str, data: bytes) -> Any:
        """The state of that label. Raises `InvalidState` if there is none."""
        cls = self._by_label.get(label)
        if cls is None:
            known = ", ".join(sorted(self._labels.values()))
            raise InvalidState(
                f"machine {self.machine} has no state {label!r}: it has {known}. After a rename say so with "
                f"was={label!r}."
            )
        return self._shapes[cls].decode(data)

    def knows(self, label: str) -> bool:
        """Whether a label names a state, today's name or an earlier one."""
        return label in self._by_label

    def class_of(self, label: str) -> type | None:
        return self._by_label.get(label)

    def tag(self, state: Any, path: str = "") -> bytes:
        """A state under its label. Raises `InvalidState` if it is not a state of the machine."""
        label = self.label_of(state)
        if label is None:
            raise InvalidState(
                f"machine {self.machine}: {path or 'a handler'} gave {state!r:.200}, which is not a state of it. Its "
                f"states are: {', '.join(sorted(self._labels.values()))}."
            )
        return b"{" + _encode(label) + b":" + self.encode(state, path) + b"}"

    def schema(self, labels: Iterable[str]) -> JsonSchema:
        """The JSON Schema of these states, each under its label."""
        chosen = list(labels)
        schemas, defs = joined(self._shapes[self._by_label[label]].schema() for label in chosen)
        tagged = [under_tag(label, schema) for label, schema in zip(chosen, schemas, strict=True)]
        alone = tagged[0] if len(tagged) == 1 else {"anyOf": tagged}
        return {**alone, "$defs": defs} if defs else alone

    def untag(self, data: bytes | msgspec.Raw) -> Any:
        """The inverse of `tag`."""
        label, value = untagged(data, f"machine {self.machine}")
        return self.decode(label, value)


def untagged(data: bytes | msgspec.Raw, what: str) -> tuple[str, bytes]:
    """The label and its data."""
    try:
        [(label, value)] = _tagged.decode(data).items()
    except (msgspec.MsgspecError, ValueError) as error:
        raise NotDecodable(f"{what}: the stored data is not a state under its label: {error}") from None
    return label, bytes(value)


class NextShape(Shape[Any]):
    """What a handler returns: the next state, a cursor, or a pause."""

    __slots__ = ("_cursor", "_labels", "_states")

    def __init__(self, states: States, *, what: str, cursor: Any = None, labels: Sequence[str] = ()) -> None:
        super().__init__(Any, what=what)
        self._labels = tuple(labels)
        self._states = states
        self._cursor: Shape[Any] = Shape(cursor if cursor is not None else Any, what=f"{what}: its cursor")

    def check(self) -> Codec:
        """Nothing to do: the parts are checked when the machine is built."""
        return compile_codec(Any)

    def schema(self) -> JsonSchema:
        """The schema of the states it may be."""
        return self._states.schema(self._labels)

    def encode(self, value: Any, path: str = "") -> bytes:
        if is_more(value):
            return b'{"' + MORE.encode() + b'":' + self._cursor.encode(value.cursor, "cursor") + b"}"
        if type(value) is Again:
            return b'{"' + AGAIN.encode() + b'":' + _encode(value.after) + b"}"
        return self._states.tag(value, path or self.what)

    def decode(self, data: bytes | msgspec.Raw) -> Any:
        label, value = untagged(data, self.what)
        if label == MORE:
            return More(self._cursor.decode(value))
        return Again(msgspec.json.decode(value)) if label == AGAIN else self._states.decode(label, value)

    def round_trip(self, value: Any, path: str = "") -> tuple[bytes, Any]:
        """The JSON, and what it decodes to."""
        data = self.encode(value, path)
        return data, self.decode(data)


class Parts(Arguments):
    """The arguments of a state's step: named parts, each with its shape."""

    __slots__ = ("_shapes",)

    def __init__(self, what: str, **shapes: Shape[Any]) -> None:
        self.what = what
        self.names: tuple[str, ...] = tuple(shapes)
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.signature: inspect.Signature = inspect.Signature([inspect.Parameter(name, kind) for name in shapes])
        self._shapes = tuple(shapes.values())

    def check(self) -> Codec:
        """Nothing to do: the parts are checked when the machine is built."""
        return compile_codec(Any)

    def schema(self) -> JsonSchema:
        """An object by name."""
        schemas, defs = joined(shape.schema() for shape in self._shapes)
        named = {"type": "object", "properties": dict(zip(self.names, schemas, strict=True)), "required": [*self.names]}
        return {**named, "$defs": defs} if defs else named

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return dict(self.signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            raise InvalidArguments(f"{self.what}: {error}. Its parameters are ({', '.join(self.names)}).") from None

    def encode(self, args: Sequence[Any], kwargs: Mapping[str, Any], proven: bytes | None = None) -> bytes:
        """The arguments as one JSON object."""
        values = args if len(args) == len(self._shapes) else tuple(self.bind(args, kwargs).values())
        parts = [
            _encode(name) + b":" + shape.encode(value, name)
            for name, shape, value in zip(self.names, self._shapes, values, strict=True)
        ]
        return b"{" + b",".join(parts) + b"}"

    def decode(self, data: bytes | msgspec.Raw) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The parts, by position."""
        try:
            stored = _tagged.decode(data)
            raw = [stored[name] for name in self.names]
        except (msgspec.MsgspecError, KeyError) as error:
            raise NotDecodable(f"{self.what}: the stored arguments do not fit: {error}") from None
        return tuple(shape.decode(part) for shape, part in zip(self._shapes, raw, strict=True)), {}

    def round_trip(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[bytes, tuple[Any, ...], dict[str, Any]]:
        """The JSON, and what it decodes to."""
        data = self.encode(args, kwargs)
        return (data, *self.decode(data))
