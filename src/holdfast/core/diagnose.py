"""Finds the place and the reason when a value cannot be stored, or does not come back equal.

Only ever called after something went wrong, so it may be slow; it must not fail itself, and its depth is bounded.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import msgspec

from holdfast.core.guards import is_dict, is_list, is_named, is_set, is_tuple
from holdfast.core.models import encode_hook, is_model
from holdfast.core.plurals import type_of

__all__ = ["MAX_DEPTH", "Problem", "find_difference", "find_obstacle"]

MAX_DEPTH = 64

_encode = msgspec.json.Encoder(enc_hook=encode_hook).encode
_Children = Iterator[tuple[str, Any]]


class Problem(NamedTuple):
    """What is wrong, and where."""

    path: str
    reason: str


def find_obstacle(value: object, path: str, *, depth: int = MAX_DEPTH) -> Problem | None:
    """The first part of `value` that JSON cannot hold."""
    return _obstacle(value, path, depth, ())


def find_difference(value: Any, back: Any, path: str) -> Problem | None:
    """The first place where `back` differs from `value`; None if they are equal."""
    if _equal(value, back):
        return None
    if type(value) is not type(back):
        return Problem(path, _changed(value, back))
    if is_dict(value) and (lost := _lost_key(value, back)) is not None:
        return Problem(path, lost)
    parts, parts_back = _children(value), _children(back)
    if parts is None or parts_back is None or is_set(value):
        return Problem(path, f"{_shown(value)} came back as {_shown(back)}")
    before, after = list(parts), list(parts_back)
    if len(before) != len(after):
        return Problem(path, f"{len(before)} parts came back as {len(after)}")
    for (step, part), (_, part_back) in zip(before, after, strict=True):
        if problem := find_difference(part, part_back, _joined(path, step)):
            return problem
    return None


def _obstacle(value: Any, path: str, depth: int, above: tuple[int, ...]) -> Problem | None:
    if reason := _unfit(value):
        return Problem(path, reason)
    children = _children(value)
    if children is None:
        return None
    if id(value) in above:
        return Problem(path, "refers to itself. Store ids instead of references")
    if len(above) >= depth:
        return Problem(path, f"is nested more than {depth} levels deep. Flatten it, or store it as text")
    if is_dict(value):
        for key in value:
            if reason := _unfit_key(key):
                return Problem(path, f"has a key that {reason}")
    inside = (*above, id(value))
    for step, child in children:
        if problem := _obstacle(child, _joined(path, step), depth, inside):
            return problem
    return None


def _unfit(value: object) -> str:
    """Why JSON cannot hold a value without parts; empty if it can."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"is {value}, which JSON cannot hold. Use None, or a text, for it"
    if isinstance(value, str):
        return _unfit_text(value)
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 14_000:
        return f"is an integer of {value.bit_length()} bits, too large to store. Store it as bytes"
    if _children(value) is not None:
        return ""
    try:
        _encode(value)
    except Exception as error:  # noqa: BLE001 any reason not to encode is an answer here
        if "is unsupported" in str(error):
            return f"is {type_of(value)}, which cannot be stored. Store what it was made from"
        return f"is {type_of(value)} that cannot be stored: {error}"
    return ""


def _unfit_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"holds half of a surrogate pair at position {error.start}, which is not text. Store it as bytes"
    return ""


def _unfit_key(key: object) -> str:
    if isinstance(key, str):
        return _unfit_text(key)
    if isinstance(key, float) and not math.isfinite(key):
        return f"is {key}, which JSON cannot hold"
    try:
        _encode({key: None})
    except Exception:  # noqa: BLE001 any reason not to encode is an answer here
        return f"is {type_of(key)}, and JSON keys are text. Use str keys, or a list of pairs"
    return ""


def _children(value: Any) -> _Children | None:
    """The parts of a value with the path step to each; None if it has none."""
    if is_dict(value):
        return ((f"[{_shown(key)}]", part) for key, part in value.items())
    if is_named(value):
        return zip((f".{name}" for name in value._fields), value, strict=False)
    if is_list(value) or is_tuple(value):
        return ((f"[{place}]", part) for place, part in enumerate(value))
    if is_set(value):
        return ((f"[{_shown(part)}]", part) for part in value)
    if (names := _attributes(value)) is not None:
        return ((f".{name}", getattr(value, name)) for name in names if hasattr(value, name))
    return None


def _attributes(value: Any) -> list[str] | None:
    if isinstance(value, type):
        return None
    if isinstance(value, msgspec.Struct):
        return list(value.__struct_fields__)
    if dataclasses.is_dataclass(value):
        return [field.name for field in dataclasses.fields(value)]
    cls = cast(Any, type(value))
    if hasattr(cls, "__attrs_attrs__"):
        return [attribute.name for attribute in cls.__attrs_attrs__]
    return list(value.__dict__) if is_model(cls) else None


def _joined(path: str, step: str) -> str:
    return (path + step).removeprefix(".")


def _equal(value: Any, back: Any) -> bool:
    try:
        return (value == back) is True
    except Exception:  # noqa: BLE001 user code in __eq__, or too deep: compare part by part
        return False


def _changed(value: object, back: object) -> str:
    return f"{type_of(value)} came back as {type_of(back)}. Annotate it as {_annotation_for(value)}"


def _annotation_for(value: object) -> str:
    if is_tuple(value) and not is_named(value):
        inner = {type(part).__name__ for part in value}
        return f"tuple[{inner.pop() if len(inner) == 1 else 'Any'}, ...]"
    if is_set(value):
        inner = {type(part).__name__ for part in value}
        return f"{type(value).__name__}[{inner.pop() if len(inner) == 1 else 'Any'}]"
    return type(value).__qualname__


def _lost_key(value: dict[Any, Any], back: dict[Any, Any]) -> str | None:
    for key in value:
        if key not in back:
            if not isinstance(key, str) and str(key) in back:
                kind = type(key).__name__
                return f"the key {_shown(key)} ({kind}) came back as text. Annotate the dict as dict[{kind}, …]"
            return f"the key {_shown(key)} did not come back. Add it to the annotation"
    return None


def _shown(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an int of {value.bit_length()} bits"
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        text = ascii(value)
        return text if len(text) <= 60 else f"{text[:50]}…"
    return f"<{type(value).__name__}>"
