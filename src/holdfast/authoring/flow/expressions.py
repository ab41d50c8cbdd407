"""Expressions as small trees: the parsed form of `${…}`, and of every value of a flow that may contain one.

Seven kinds of node, all frozen, and nothing else: no calls, no attributes of Python objects, no names but the four
roots. Trees are bounded in depth, so they can be walked recursively. `parsing` makes them from text, `evaluating` gives
them values, `written` writes them back: the text of a tree parses to an equal tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, assert_never

from holdfast.core.guards import is_dict, is_list, is_tuple

__all__ = [
    "MAX_DEPTH",
    "ROOTS",
    "Binary",
    "Expression",
    "Fields",
    "Items",
    "Json",
    "Path",
    "References",
    "Root",
    "Text",
    "Unary",
    "Value",
    "constant",
    "is_constant",
    "references",
]

Json: TypeAlias = Any
"""A plain JSON value: None, bool, int, float, str, list, dict with text keys."""

Root: TypeAlias = Literal["input", "steps", "vars", "item"]
UnaryOperator: TypeAlias = Literal["not", "-"]
BinaryOperator: TypeAlias = Literal["+", "-", "*", "/", "==", "!=", "<", "<=", ">", ">=", "and", "or", "??"]

ROOTS: tuple[Root, ...] = ("input", "steps", "vars", "item")
MAX_DEPTH = 100
"""Levels of one tree, of the values around it and of the operators within."""


@dataclass(frozen=True, slots=True)
class Value:
    """A constant scalar."""

    value: bool | int | float | str | None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and type(self.value) is type(other.value) and self.value == other.value

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True, slots=True)
class Path:
    """A path into the known values: ``steps.price.cents``, ``input.lines[0]``, ``input["a b"]``."""

    root: Root
    parts: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True)
class Unary:
    """``not x`` or ``-x``."""

    operator: UnaryOperator
    of: Expression


@dataclass(frozen=True, slots=True)
class Binary:
    """Two operands. ``and``, ``or`` and ``??`` evaluate the right one only if needed."""

    operator: BinaryOperator
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Fields:
    """An object, its keys in the order in which they were written."""

    fields: tuple[tuple[str, Expression], ...]

    def get(self, key: str) -> Expression | None:
        """The value under that key."""
        return next((value for name, value in self.fields if name == key), None)


@dataclass(frozen=True, slots=True)
class Text:
    """Text that contains expressions: ``order ${input.id}``."""

    parts: tuple[str | Expression, ...]


Expression: TypeAlias = Value | Path | Unary | Binary | Items | Fields | Text


@dataclass(frozen=True, slots=True)
class References:
    """The paths of a tree: those it needs, and those that have a replacement (left of ``??``)."""

    firm: tuple[Path, ...] = ()
    optional: tuple[Path, ...] = ()

    def all(self) -> tuple[Path, ...]:
        return (*self.firm, *self.optional)

    def steps(self) -> tuple[str, ...]:
        """The steps that are referred to, each once."""
        return _steps(self.all())

    def firm_steps(self) -> tuple[str, ...]:
        """The steps it needs, each once."""
        return _steps(self.firm)


def references(*trees: Expression | None) -> References:
    """Every path of the trees, in reading order."""
    found = [pair for tree in trees if tree is not None for pair in _walk(tree, is_firm=True)]
    return References(
        tuple(path for path, is_firm in found if is_firm), tuple(path for path, is_firm in found if not is_firm)
    )


def is_constant(tree: Expression) -> bool:
    """Whether the tree always has the same value."""
    return not references(tree).all()


def constant(value: Json) -> Expression:
    """The tree of a plain JSON value; text is literal, without `${…}`."""
    if is_dict(value):
        return Fields(tuple((key, constant(each)) for key, each in value.items()))
    if is_list(value) or is_tuple(value):
        return Items(tuple(constant(each) for each in value))
    return Value(value)


def _steps(paths: tuple[Path, ...]) -> tuple[str, ...]:
    names = (path.parts[0] for path in paths if path.root == "steps" and path.parts)
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))


def _walk(tree: Expression, *, is_firm: bool) -> Iterator[tuple[Path, bool]]:
    match tree:
        case Value():
            return
        case Path():
            yield tree, is_firm
        case Unary(_, of):
            yield from _walk(of, is_firm=is_firm)
        case Binary("??", left, right):
            yield from _walk(left, is_firm=False)
            yield from _walk(right, is_firm=is_firm)
        case Binary(_, left, right):
            yield from _walk(left, is_firm=is_firm)
            yield from _walk(right, is_firm=is_firm)
        case Items(items):
            for item in items:
                yield from _walk(item, is_firm=is_firm)
        case Fields(fields):
            for _, value in fields:
                yield from _walk(value, is_firm=is_firm)
        case Text(parts):
            for part in parts:
                if not isinstance(part, str):
                    yield from _walk(part, is_firm=is_firm)
        case _:
            assert_never(tree)
