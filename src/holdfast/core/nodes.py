"""Annotations as trees: how values of one type become plain JSON values and come back.

A tree is needed only where msgspec alone cannot distinguish types (a union of two dataclasses) or would not be
deterministic (sets); `core.codec` gives everything else to msgspec. Here are scalars and containers; classes and unions
are in `core.compounds`. `core.annotations` builds the trees and fills nodes in after they are made, because types may
refer to themselves.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from holdfast.core.guards import is_dict, is_list, is_set, is_tuple
from holdfast.core.models import decode_hook, encode_hook

__all__ = [
    "Anything",
    "Choice",
    "Items",
    "Map",
    "Misfit",
    "Node",
    "Pairs",
    "Scalar",
    "inside",
    "is_same",
    "kind",
    "shown",
    "split_reason",
]

_encode = msgspec.json.Encoder().encode
_AT = "- at `"


class Misfit(Exception):
    """A value or stored data that does not match its type; `path` is relative to where the tree began."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path


def split_reason(error: msgspec.ValidationError) -> tuple[str, str]:
    """msgspec's "Expected `int`, got `str` - at `$.items[3]`" as its reason and a path relative to the root."""
    reason, found, place = str(error).rpartition(_AT)
    if not found:
        return str(error), ""
    return reason.rstrip(), place.rstrip("`").removeprefix("key` in `").removeprefix("$")


class Node:
    """One annotation. `kinds` are the JSON kinds its values take; `is_plain`: msgspec needs no help with it."""

    kinds: frozenset[str] = frozenset()
    is_plain = True
    is_open = False  # its depth is not bounded by the annotation
    is_direct = False  # it and everything below is plain: set once the tree is complete

    def __init__(self, annotation: Any) -> None:
        self.annotation = annotation

    @property
    def children(self) -> Iterable[Node]:
        return ()

    def accepts(self, value: object) -> bool:
        """Whether `value` looks like one of this type, without checking its contents."""
        raise NotImplementedError

    def to_plain(self, value: Any) -> Any:
        """The plain JSON value for `value`."""
        if self.is_direct:
            return msgspec.to_builtins(value, str_keys=True, enc_hook=encode_hook)
        return self._to_plain(value)

    def from_plain(self, data: Any, path: str) -> Any:
        """The value of plain `data`."""
        if not self.is_direct:
            return self._from_plain(data, path)
        try:
            return msgspec.convert(data, self.annotation, str_keys=True, dec_hook=decode_hook)
        except msgspec.ValidationError as error:
            reason, place = split_reason(error)
            raise Misfit(reason, path + place) from None

    def _to_plain(self, value: Any) -> Any:
        raise NotImplementedError

    def _from_plain(self, data: Any, path: str) -> Any:
        raise NotImplementedError


class Anything(Node):
    """`Any`, `object`, or no annotation: plain JSON values."""

    kinds: frozenset[str] = frozenset({"null", "bool", "int", "float", "str", "array", "object"})
    is_open = True


class Scalar(Node):
    """A type without parts that msgspec knows, an enum of ints or strs, or a `Literal` of those."""

    def __init__(self, annotation: Any, kinds: Iterable[str], check: Callable[[object], bool]) -> None:
        super().__init__(annotation)
        self.kinds: frozenset[str] = frozenset(kinds)
        self._check = check

    def accepts(self, value: object) -> bool:
        return self._check(value)


class Choice(Node):
    """An enum, or a `Literal`, whose values are not all ints or strs: stored by name."""

    kinds: frozenset[str] = frozenset({"str"})
    is_plain = False

    def __init__(self, annotation: Any, members: dict[str, Any]) -> None:
        super().__init__(annotation)
        self._members = members

    @property
    def names(self) -> list[str]:
        """The stored name of each."""
        return list(self._members)

    def accepts(self, value: object) -> bool:
        return any(is_same(member, value) for member in self._members.values())

    def _to_plain(self, value: Any) -> Any:
        for name, member in self._members.items():
            if is_same(member, value):
                return name
        raise Misfit(f"Expected one of {', '.join(self._members)}, got `{type(value).__name__}`")

    def _from_plain(self, data: Any, path: str) -> Any:
        if isinstance(data, str) and data in self._members:
            return self._members[data]
        raise Misfit(f"Expected one of {', '.join(self._members)}, got {shown(data)}", path)


class Items(Node):
    """A list, set, frozenset or tuple of one item type. Sets are stored sorted, so equal sets give equal bytes."""

    kinds: frozenset[str] = frozenset({"array"})

    def __init__(self, annotation: Any, made_as: type, *, is_plain: bool = True) -> None:
        super().__init__(annotation)
        self.made_as = made_as
        self.is_set: bool = made_as in {set, frozenset}
        self.is_plain: bool = is_plain and not self.is_set
        self.item: Node = self

    @property
    def children(self) -> Iterable[Node]:
        return (self.item,)

    def accepts(self, value: object) -> bool:
        return isinstance(value, self.made_as)

    def _to_plain(self, value: Any) -> Any:
        if not (is_list(value) or is_tuple(value) or is_set(value)):
            raise Misfit(f"Expected `{self.made_as.__name__}`, got `{type(value).__name__}`")
        plain = [inside(self.item, each, f"[{place}]") for place, each in enumerate(value)]
        return sorted(plain, key=_encode) if self.is_set else plain

    def _from_plain(self, data: Any, path: str) -> Any:
        if not is_list(data):
            raise Misfit(f"Expected `array`, got {shown(data)}", path)
        return self.made_as(self.item.from_plain(each, f"{path}[{place}]") for place, each in enumerate(data))


class Pairs(Node):
    """A tuple with a type for each position."""

    kinds: frozenset[str] = frozenset({"array"})

    def __init__(self, annotation: Any) -> None:
        super().__init__(annotation)
        self.items: tuple[Node, ...] = ()

    @property
    def children(self) -> Iterable[Node]:
        return self.items

    def accepts(self, value: object) -> bool:
        return is_tuple(value) and len(value) == len(self.items)

    def _to_plain(self, value: Any) -> Any:
        if not self.accepts(value):
            raise Misfit(f"Expected a tuple of {len(self.items)}, got `{type(value).__name__}`")
        return [inside(node, each, f"[{n}]") for n, (node, each) in enumerate(zip(self.items, value, strict=True))]

    def _from_plain(self, data: Any, path: str) -> Any:
        if not is_list(data) or len(data) != len(self.items):
            raise Misfit(f"Expected `array` of length {len(self.items)}, got {shown(data)}", path)
        pairs = zip(self.items, data, strict=True)
        return tuple(node.from_plain(each, f"{path}[{n}]") for n, (node, each) in enumerate(pairs))


class Map(Node):
    """A dict. Its keys are those that JSON keys can represent; msgspec converts them."""

    kinds: frozenset[str] = frozenset({"object"})

    def __init__(self, annotation: Any) -> None:
        super().__init__(annotation)
        self.key: Node = self
        self.value: Node = self

    @property
    def children(self) -> Iterable[Node]:
        return (self.key, self.value)

    def accepts(self, value: object) -> bool:
        return isinstance(value, dict)

    def _to_plain(self, value: Any) -> Any:
        if not is_dict(value):
            raise Misfit(f"Expected `dict`, got `{type(value).__name__}`")
        keys: dict[str, None] = msgspec.to_builtins(dict.fromkeys(value), str_keys=True)
        return {
            plain: inside(self.value, each, f"[{key!r}]")
            for plain, (key, each) in zip(keys, value.items(), strict=True)
        }

    def _from_plain(self, data: Any, path: str) -> Any:
        if not is_dict(data):
            raise Misfit(f"Expected `object`, got {shown(data)}", path)
        keys_only: Any = types.GenericAlias(dict, (self.key.annotation, None))
        made: dict[Any, Any] = {}
        for key, each in data.items():
            try:
                [read] = msgspec.convert({key: None}, keys_only, str_keys=True)
            except msgspec.ValidationError as error:
                raise Misfit(split_reason(error)[0], f"{path}[{key!r}]") from None
            made[read] = self.value.from_plain(each, f"{path}[{key!r}]")
        return made


def inside(node: Node, value: Any, step: str) -> Any:
    """`node.to_plain(value)`, with `step` in front of the path of an error inside."""
    try:
        return node.to_plain(value)
    except Misfit as misfit:
        misfit.path = step + misfit.path
        raise


def kind(data: object) -> str:
    """The JSON kind of a plain value."""
    if data is None:
        return "null"
    names: dict[Any, str] = {bool: "bool", int: "int", float: "float", str: "str", list: "array", dict: "object"}
    return names[type(data)]


def is_same(member: object, value: object) -> bool:
    """Whether both are equal and of one type: 1 is not True."""
    try:
        return type(member) is type(value) and bool(member == value)
    except Exception:  # noqa: BLE001 user code in __eq__: not the same, then
        return False


def shown(data: object) -> str:
    """Plain data for a message, shortened."""
    text = ascii(data) if data is None or isinstance(data, (bool, int, float, str)) else f"`{kind(data)}`"
    return text if len(text) <= 80 else f"{text[:60]}…"
