"""Reads annotations into trees of nodes (`core.nodes`, `core.compounds`).

Classes are read field by field, generics with their arguments, and forward references are resolved where they were
written. Types that cannot be stored (an open file, a client, a callable) raise `Unsupported`, at definition time.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime as dt
import decimal
import enum
import sys
import types
import typing
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from holdfast.core.compounds import Field, Fields, Model, Union
from holdfast.core.models import is_model
from holdfast.core.nodes import Anything, Choice, Items, Map, Node, Pairs, Scalar

__all__ = ["Unsupported", "build", "hints_of", "reachable"]

NOT_FOUND = (
    "A class defined inside a function, or imported only under TYPE_CHECKING, cannot be found by its name: "
    "define or import it at the top of the module."
)
ADVICE = (
    "Use None, bool, int, float, str, bytes, datetime, date, time, timedelta, Decimal, UUID, enums, lists, tuples, "
    "sets, dicts, dataclasses, TypedDict, NamedTuple, attrs, msgspec or Pydantic classes."
)

_SCALARS: dict[type, str] = {
    type(None): "null",
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    bytes: "str",
    bytearray: "str",
    dt.datetime: "str",
    dt.date: "str",
    dt.time: "str",
    dt.timedelta: "str",
    decimal.Decimal: "str",
    uuid.UUID: "str",
}
_ARRAYS: dict[Any, tuple[type, bool]] = {  # what it is made as, and whether msgspec knows it too
    list: (list, True),
    tuple: (tuple, True),
    set: (set, True),
    frozenset: (frozenset, True),
    collections.abc.Sequence: (list, True),
    collections.abc.MutableSequence: (list, True),
    collections.abc.Collection: (list, True),
    collections.abc.Iterable: (list, False),
    collections.abc.Set: (set, True),
    collections.abc.MutableSet: (set, True),
}
_OBJECTS: set[Any] = {dict, collections.abc.Mapping, collections.abc.MutableMapping}
_KEY_KINDS = {"str", "int", "float"}
_WRAPPERS: set[Any] = {typing.Required, typing.NotRequired, typing.Final, typing.ClassVar}

Bindings = Mapping[Any, Any]


class Unsupported(Exception):
    """An annotation that cannot be stored. The text says why, and what to use."""


def build(annotation: Any) -> Node:
    """The tree of an annotation, complete."""
    try:
        root = _Builder().node(annotation, {})
    except RecursionError:
        raise Unsupported(
            f"{_name(annotation)} is a type alias that contains itself: use a dataclass, or Any"
        ) from None
    for node in reachable(root):
        node.is_direct = all(below.is_plain for below in reachable(node))
    return root


def reachable(root: Node) -> list[Node]:
    """The node and all below it, each once."""
    found = {id(root): root}
    waiting = [root]
    while waiting:
        for child in waiting.pop().children:
            if id(child) not in found:
                found[id(child)] = child
                waiting.append(child)
    return list(found.values())


def hints_of(thing: Any, whose: str) -> dict[str, Any]:
    """The annotations of a class or function, with forward references resolved. `whose` begins the error message."""
    try:
        return typing.get_type_hints(thing, include_extras=True)
    except NameError as error:
        raise Unsupported(f"{whose} annotations cannot be read: {error}. {NOT_FOUND}") from None
    except Exception as error:  # noqa: BLE001 an annotation is any expression
        raise Unsupported(f"{whose} annotations cannot be read: {type(error).__name__}: {error}") from None


class _Builder:
    """Builds one tree. Remembers the classes it is inside, so that types may contain themselves."""

    def __init__(self) -> None:
        self._classes: dict[Any, Fields] = {}

    def node(self, annotation: Any, bindings: Bindings) -> Node:
        annotation = _unwrapped(annotation, bindings)
        plain = _without_metadata(annotation)
        if plain is Any or plain is object or plain in (typing.NoReturn, typing.Never):
            return Anything(Any)
        if isinstance(plain, (str, typing.ForwardRef)):
            raise Unsupported(f"the annotation {plain!r} cannot be resolved. {NOT_FOUND}")
        origin, args = typing.get_origin(plain), typing.get_args(plain)
        if origin is typing.Union or origin is types.UnionType:
            return self._union(annotation, args, bindings)
        if origin is typing.Literal:
            return _literal(annotation, args)
        if isinstance(plain, type) and origin is None and plain in _SCALARS:
            return Scalar(annotation, {_SCALARS[plain]}, _exactly(plain))
        container = origin or plain
        if origin is tuple and hasattr(plain, "__args__") and (not args or args[-1] is not Ellipsis):
            pairs = Pairs(annotation)
            pairs.items = tuple(self.node(each, bindings) for each in args)
            return pairs
        if _is_hashable(container) and container in _ARRAYS:
            made_as, known = _ARRAYS[container]
            items = Items(annotation, made_as, is_plain=known)
            items.item = self.node(args[0] if args else Any, bindings)
            return items
        if _is_hashable(container) and container in _OBJECTS:
            return self._map(annotation, args or (Any, Any), bindings)
        if isinstance(container, type):
            return self._class(plain, container, _bindings(container, args))
        raise Unsupported(f"{_name(annotation)} cannot be stored. {ADVICE}")

    def _union(self, annotation: Any, args: tuple[Any, ...], bindings: Bindings) -> Node:
        members = [self.node(each, bindings) for each in args]
        if any(isinstance(member, Anything) for member in members):
            if object in args and set(args) - {object, types.NoneType}:  # msgspec unites it with None only
                instead = "object already stands for every value. Use object alone, or Any"
                raise Unsupported(f"{_name(annotation)}: {instead}")
            return Anything(Any)
        union = Union(annotation)
        union.settle(members)
        return union

    def _map(self, annotation: Any, args: tuple[Any, ...], bindings: Bindings) -> Node:
        table = Map(annotation)
        table.key, table.value = self.node(args[0], bindings), self.node(args[1], bindings)
        if not isinstance(table.key, Anything) and not (table.key.is_plain and table.key.kinds <= _KEY_KINDS):
            raise Unsupported(
                f"the keys of {_name(annotation)} cannot be JSON keys. Use str, int, float, an enum, datetime or UUID, "
                "or a list of pairs instead of the dict."
            )
        return table

    def _class(self, annotation: Any, cls: Any, bindings: Bindings) -> Node:
        if issubclass(cls, enum.Enum):
            return _enum(annotation, cls)
        if is_model(cls):
            return Model(annotation)
        known = self._classes.get(annotation)
        if known is not None:
            known.is_open = True  # it contains itself
            return known
        read = _fields_of(cls)
        if read is None:
            raise Unsupported(f"{_name(cls)} cannot be stored. {ADVICE}")
        style, parts = read
        config = cls.__struct_config__ if style == "struct" else None
        is_array = style == "tuple" or (config is not None and config.array_like)
        node = self._classes[annotation] = Fields(annotation, cls, style, is_array=is_array)
        if config is not None:
            node.refuses_unknown = config.forbid_unknown_fields
            node.json_tag = config.tag
        hints = hints_of(cls, f"{_name(cls)}: its")
        node.fields = tuple(
            Field(name, key, self.node(hints.get(name, Any), bindings), default) for name, key, default in parts
        )
        if style == "dict":
            node.optional = _optional_keys(cls, hints)
        return node


Part = tuple[str, str, Callable[[], Any] | None]


def _fields_of(cls: Any) -> tuple[str, list[Part]] | None:
    """How a class is built, and its parts: attribute, JSON key, default."""
    if issubclass(cls, msgspec.Struct):
        return "struct", [(f.name, f.encode_name, _default(f, msgspec.NODEFAULT)) for f in msgspec.structs.fields(cls)]
    if dataclasses.is_dataclass(cls):
        return "slots", [(f.name, f.name, _default(f, dataclasses.MISSING)) for f in dataclasses.fields(cls)]
    if hasattr(cls, "__attrs_attrs__"):
        return "slots", [(a.name, a.name, _attrs_default(a)) for a in cls.__attrs_attrs__]
    if typing.is_typeddict(cls):
        return "dict", [(name, name, None) for name in cls.__annotations__]
    if tuple in cls.__mro__ and hasattr(cls, "_fields"):
        defaults = cls._field_defaults
        return "tuple", [(n, n, _constant(defaults[n]) if n in defaults else None) for n in cls._fields]
    return None


def _optional_keys(cls: Any, hints: Mapping[str, Any]) -> frozenset[str]:
    """The optional keys of a TypedDict. Its own list is wrong where annotations are text (PEP 563)."""
    marks = {name: typing.get_origin(hint) for name, hint in hints.items()}
    required = {name for name, mark in marks.items() if mark is typing.Required}
    optional = {name for name, mark in marks.items() if mark is typing.NotRequired}
    return frozenset((cls.__optional_keys__ - required) | optional)


def _default(field: Any, missing: object) -> Callable[[], Any] | None:
    if field.default is not missing:
        return _constant(field.default)
    return field.default_factory if field.default_factory is not missing else None


def _attrs_default(attribute: Any) -> Callable[[], Any] | None:
    attr = sys.modules["attr"]
    if attribute.default is attr.NOTHING:
        return None
    if isinstance(attribute.default, attr.Factory):
        return None if attribute.default.takes_self else attribute.default.factory
    return _constant(attribute.default)


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _enum(annotation: Any, cls: type[enum.Enum]) -> Node:
    values = [member.value for member in cls]
    for kind, name in ((int, "int"), (str, "str")):
        if values and all(isinstance(value, kind) and not isinstance(value, bool) for value in values):
            return Scalar(annotation, {name}, lambda value: isinstance(value, cls))
    return Choice(annotation, dict(cls.__members__))


def _literal(annotation: Any, args: tuple[Any, ...]) -> Node:
    if all(type(value) in {str, int, type(None)} for value in args):
        kinds = {_SCALARS[type(value)] for value in args}
        return Scalar(annotation, kinds, lambda value: any(type(value) is type(a) and value == a for a in args))
    return Choice(annotation, {f"{each}" if isinstance(each, enum.Enum) else repr(each): each for each in args})


def _exactly(cls: type) -> Callable[[object], bool]:
    if cls is float:
        return lambda value: type(value) in {float, int}
    return lambda value: type(value) is cls


def _unwrapped(annotation: Any, bindings: Bindings) -> Any:
    """The annotation without the parts that only type checkers need, with type variables replaced."""
    while True:
        if annotation is None:
            return type(None)
        if isinstance(annotation, TypeVar):
            bound = bindings.get(annotation, annotation.__bound__ or Any)
            annotation = Any if bound is annotation else bound
        elif typing.get_origin(annotation) in _WRAPPERS:
            annotation = typing.get_args(annotation)[0]
        elif hasattr(annotation, "__supertype__"):  # NewType
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        else:
            break
    free = getattr(annotation, "__parameters__", ())
    if free and bindings and not isinstance(annotation, type):
        return annotation[tuple(bindings.get(each, Any) for each in free)]
    return annotation


def _without_metadata(annotation: Any) -> Any:
    while typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    return annotation


def _bindings(cls: type, args: tuple[Any, ...]) -> dict[Any, Any]:
    """The types that the type variables of a class, and of its generic base classes, stand for."""
    found: dict[Any, Any] = dict(zip(getattr(cls, "__parameters__", ()), args, strict=False))
    for inherited in getattr(cls, "__orig_bases__", ()):
        parent = typing.get_origin(inherited)
        if isinstance(parent, type):
            given = tuple(found.get(each, each) for each in typing.get_args(inherited))
            found |= {key: value for key, value in _bindings(parent, given).items() if key is not value}
    return found


def _is_hashable(thing: object) -> bool:
    return isinstance(thing, collections.abc.Hashable)


def _name(thing: Any) -> str:
    if isinstance(thing, type):
        return f"{thing.__module__}.{thing.__qualname__}".removeprefix("builtins.")
    return str(thing)
