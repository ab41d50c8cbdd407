"""Nodes of types with members: classes, and unions of them.

A union whose members have different JSON types (``int | str | None``) is stored as it is. In any other, the member is
stored under a tag from the annotation: ``{"$Order": {…}}``. Tags are only ever compared with the members of the
annotation; no class is looked up by a name found in data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from holdfast.core.guards import is_dict, is_list
from holdfast.core.nodes import Misfit, Node, inside, is_same, kind, shown

__all__ = ["Field", "Fields", "Model", "Union"]


class Field(NamedTuple):
    """A part of a class: its attribute, its JSON key, its node, and its default."""

    name: str
    key: str
    node: Node
    default: Callable[[], Any] | None


class Fields(Node):
    """A dataclass, attrs class, Struct, NamedTuple or TypedDict."""

    def __init__(self, annotation: Any, cls: type, style: str, *, is_array: bool = False) -> None:
        super().__init__(annotation)
        self.cls: Any = cls
        self.style = style  # "slots" (set attributes), "struct", "tuple" or "dict"
        self.is_array = is_array
        self.kinds: frozenset[str] = frozenset({"array" if is_array else "object"})
        self.fields: tuple[Field, ...] = ()
        self.optional: frozenset[str] = frozenset()  # keys a TypedDict may lack
        self.refuses_unknown = False
        self.json_tag: object = None  # of a Struct: msgspec can tell it from other tagged ones

    @property
    def children(self) -> Iterable[Node]:
        return [field.node for field in self.fields]

    def accepts(self, value: object) -> bool:
        if self.style != "dict":
            return type(value) is self.cls
        known = {field.key for field in self.fields}
        return is_dict(value) and known - self.optional <= set(value) <= known

    def _to_plain(self, value: Any) -> Any:
        if not self.accepts(value):
            raise Misfit(f"Expected `{self.cls.__name__}`, got `{type(value).__name__}`")
        if self.is_array:
            return [inside(field.node, each, f".{field.name}") for field, each in self._parts(value)]
        return {field.key: inside(field.node, each, f".{field.name}") for field, each in self._parts(value)}

    def _parts(self, value: Any) -> Iterator[tuple[Field, Any]]:
        for field in self.fields:
            if self.style != "dict":
                yield field, getattr(value, field.name)
            elif field.key in value:
                yield field, value[field.key]

    def _from_plain(self, data: Any, path: str) -> Any:
        if self.is_array:
            if not is_list(data):
                raise Misfit(f"Expected `array`, got {shown(data)}", path)
            names = [field.key for field in self.fields]
            data = dict(zip(names, data, strict=False))
        if not is_dict(data):
            raise Misfit(f"Expected `object`, got {shown(data)}", path)
        values = self._read(data, path)
        try:
            return self._make(values)
        except (TypeError, ValueError) as error:  # as msgspec does for what __post_init__ raises
            raise Misfit(str(error), path) from None

    def _read(self, data: dict[str, Any], path: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for field in self.fields:
            if field.key in data:
                values[field.name] = field.node.from_plain(data[field.key], f"{path}.{field.name}")
            elif field.default is not None:
                values[field.name] = field.default()
            elif field.key not in self.optional:
                raise Misfit(f"Object missing required field `{field.key}`", path)
        if self.refuses_unknown and (unknown := sorted(set(data) - {field.key for field in self.fields})):
            raise Misfit(f"Object contains unknown field `{unknown[0]}`", path)
        return values

    def _make(self, values: dict[str, Any]) -> Any:
        if self.style == "dict":
            return values
        if self.style != "slots":
            return self.cls(**values)
        made: Any = self.cls.__new__(self.cls)
        for name, value in values.items():
            object.__setattr__(made, name, value)
        for after in ("__post_init__", "__attrs_post_init__"):
            if hasattr(made, after):
                getattr(made, after)()
        return made


class Model(Node):
    """A Pydantic model: it encodes and validates itself."""

    kinds: frozenset[str] = frozenset({"model"})
    is_open = True

    def accepts(self, value: object) -> bool:
        return type(value) is self.annotation


class Union(Node):
    """One of several types: distinguished by JSON kind if all differ, else by tag."""

    def __init__(self, annotation: Any) -> None:
        super().__init__(annotation)
        self.members: tuple[Node, ...] = ()
        self._by_tag: dict[str, Node] = {}
        self._or_none = False

    def settle(self, members: Iterable[Node]) -> None:
        """Takes its members and decides how to distinguish them."""
        self.members = tuple(members)
        self.kinds: frozenset[str] = frozenset().union(*(member.kinds for member in self.members))
        inner = [member for member in self.members if member.annotation is not type(None)]
        self._or_none = len(inner) < len(self.members)
        self.is_plain: bool = _is_discriminable(inner)
        self._by_tag = {f"${_tag(member.annotation)}": member for member in inner}
        if len(self._by_tag) < len(inner):
            self._by_tag = {f"${_full_tag(member.annotation)}": member for member in inner}

    @property
    def children(self) -> Iterable[Node]:
        return self.members

    @property
    def is_optional(self) -> bool:
        """Whether None is one of the members."""
        return self._or_none

    def tagged(self) -> list[tuple[str | None, Node]]:
        """The members without None, each with its tag; None where JSON itself distinguishes them."""
        return [(None if self.is_plain else tag, member) for tag, member in self._by_tag.items()]

    def accepts(self, value: object) -> bool:
        return any(member.accepts(value) for member in self.members)

    def _to_plain(self, value: Any) -> Any:
        if value is None and self._or_none:
            return None
        fitting = [(tag, member) for tag, member in self._by_tag.items() if member.accepts(value)]
        if not fitting:
            raise Misfit(f"Expected {self._names()}, got `{type(value).__name__}`")
        for tag, member in fitting[:-1]:
            try:
                plain = member.to_plain(value)
                if is_same(member.from_plain(plain, ""), value):
                    return plain if self.is_plain else {tag: plain}
            except (Misfit, TypeError, ValueError):
                continue
        tag, member = fitting[-1]
        plain = member.to_plain(value)
        return plain if self.is_plain else {tag: plain}

    def _from_plain(self, data: Any, path: str) -> Any:
        if data is None and self._or_none:
            return None
        if self.is_plain:
            return self._by_kind(data, path)
        if is_dict(data) and len(data) == 1:
            [(tag, inner)] = data.items()
            if tag in self._by_tag:
                return self._by_tag[tag].from_plain(inner, path)
        raise Misfit(f"Expected {self._names()} under its tag ({', '.join(self._by_tag)}), got {shown(data)}", path)

    def _by_kind(self, data: Any, path: str) -> Any:
        wanted = kind(data)
        for member in self._by_tag.values():
            if wanted in member.kinds or "model" in member.kinds:
                return member.from_plain(data, path)
        if wanted == "int":
            for member in self._by_tag.values():
                if "float" in member.kinds:
                    return member.from_plain(data, path)
        raise Misfit(f"Expected {self._names()}, got {shown(data)}", path)

    def _names(self) -> str:
        return " or ".join(tag[1:] for tag in self._by_tag) + (" or None" if self._or_none else "")


def _is_discriminable(members: list[Node]) -> bool:
    """Whether msgspec can distinguish these by their JSON kinds."""
    if len(members) > 1 and any("model" in member.kinds for member in members):
        return False
    literal = [member for member in members if not (isinstance(member, Fields) and member.json_tag is not None)]
    tagged = len(members) - len(literal)
    kinds = [kind for member in literal for kind in member.kinds - {"null"}]
    return len(kinds) == len(set(kinds)) and not (tagged and "object" in kinds)


def _tag(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else _full_tag(annotation)


def _full_tag(annotation: Any) -> str:
    if isinstance(annotation, type):
        return f"{annotation.__module__}.{annotation.__qualname__}".removeprefix("builtins.")
    return repr(annotation).replace("typing.", "").replace("collections.abc.", "")
