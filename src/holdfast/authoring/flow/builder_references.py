"""References of the builder: they stand for values that a run will know, and their operators build expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeAlias

import msgspec

from holdfast.authoring.flow.expressions import (
    MAX_DEPTH,
    Binary,
    BinaryOperator,
    Expression,
    Fields,
    Items,
    Path,
    Text,
    Unary,
    Value,
)
from holdfast.core.budget import MAX_PAYLOAD, TooLarge, check_room
from holdfast.core.guards import is_dict, is_list, is_tuple
from holdfast.core.models import encode_hook
from holdfast.errors import DefinitionError

__all__ = ["Given", "Ref", "condition_of", "text_of", "tree_of"]

MAX_NODES: Final = 1_000

Given: TypeAlias = Any
"""A value for a step: a `Ref`, plain data, or lists and dicts with references in them."""


class Ref:
    """A value that a run will know: the input, a step's result, a variable, an item, or something computed from them.
    `ref["name"]` and `ref[0]` are parts of it. `+ - * /`, comparisons, and `& | ~` (and, or, not) compute with it, and
    `ref.otherwise(value)` is `??`. It has no value in Python: `if ref:` is an error.
    """

    __slots__ = ("tree",)

    def __init__(self, tree: Expression) -> None:
        self.tree: Expression = tree

    def __repr__(self) -> str:
        from holdfast.authoring.flow.written import written

        return f"<${{{written(self.tree)}}}>"

    def __getitem__(self, part: str | int) -> Ref:
        if not isinstance(self.tree, Path):
            raise DefinitionError(f"{self!r} is computed: only input, results, variables and items have parts")
        if isinstance(part, bool) or not isinstance(part, (str, int)):
            raise DefinitionError(f"{self!r}[{part!r}]: a part is named by text or a whole number")
        return Ref(Path(self.tree.root, (*self.tree.parts, part)))

    def otherwise(self, value: Given) -> Ref:
        """This value, or `value` if this one is missing or null: `??`."""
        return self._with("??", value)

    def _with(self, operator: BinaryOperator, other: Given, *, is_right: bool = False) -> Ref:
        own, made = _operand(self), _operand(other)
        return Ref(Binary(operator, made, own) if is_right else Binary(operator, own, made))

    def __add__(self, other: Given) -> Ref:
        return self._with("+", other)

    def __radd__(self, other: Given) -> Ref:
        return self._with("+", other, is_right=True)

    def __sub__(self, other: Given) -> Ref:
        return self._with("-", other)

    def __rsub__(self, other: Given) -> Ref:
        return self._with("-", other, is_right=True)

    def __mul__(self, other: Given) -> Ref:
        return self._with("*", other)

    def __rmul__(self, other: Given) -> Ref:
        return self._with("*", other, is_right=True)

    def __truediv__(self, other: Given) -> Ref:
        return self._with("/", other)

    def __rtruediv__(self, other: Given) -> Ref:
        return self._with("/", other, is_right=True)

    def __lt__(self, other: Given) -> Ref:
        return self._with("<", other)

    def __le__(self, other: Given) -> Ref:
        return self._with("<=", other)

    def __gt__(self, other: Given) -> Ref:
        return self._with(">", other)

    def __ge__(self, other: Given) -> Ref:
        return self._with(">=", other)

    def __eq__(self, other: Given) -> Ref:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._with("==", other)

    def __ne__(self, other: Given) -> Ref:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._with("!=", other)

    def __and__(self, other: Given) -> Ref:
        return self._with("and", other)

    def __rand__(self, other: Given) -> Ref:
        return self._with("and", other, is_right=True)

    def __or__(self, other: Given) -> Ref:
        return self._with("or", other)

    def __ror__(self, other: Given) -> Ref:
        return self._with("or", other, is_right=True)

    def __invert__(self) -> Ref:
        return Ref(Unary("not", _operand(self)))

    def __neg__(self) -> Ref:
        return Ref(Unary("-", _operand(self)))

    def __hash__(self) -> int:
        """Refused: `==` makes an expression, so a reference cannot be a key."""
        raise TypeError(f"{self!r} cannot be a key of a dict: comparing it with == makes an expression")

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError(
            f"{self!r} has no value yet: it is known when the flow runs. For conditions use when=, with & | ~ "
            "for and, or, not"
        )

    __bool__: Callable[..., Any] = _refuse
    __iter__: Callable[..., Any] = _refuse
    __contains__: Callable[..., Any] = _refuse
    __len__: Callable[..., Any] = _refuse


def tree_of(value: Given, depth: int = 0) -> Expression:
    """The tree of a value; text is taken literally."""
    if not depth:
        _check_room(value)
    if depth > MAX_DEPTH:
        raise DefinitionError(f"a value has at most {MAX_DEPTH} levels")
    if isinstance(value, Ref):
        return value.tree
    if is_dict(value):
        for key in value:
            if not isinstance(key, str):
                raise DefinitionError(f"the key {key!r} of a value is not text")
        return Fields(tuple((key, tree_of(each, depth + 1)) for key, each in value.items()))
    if is_list(value) or is_tuple(value):
        return Items(tuple(tree_of(each, depth + 1) for each in value))
    if value is None or isinstance(value, (bool, str)):
        return Value(value)
    if isinstance(value, (int, float)):
        return _number(value)
    try:
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=encode_hook)
    except (TypeError, ValueError, RecursionError) as error:
        raise DefinitionError(f"{type(value).__name__} is not a value for a flow: {error}") from None
    return tree_of(plain, depth + 1)


def _check_room(value: Given) -> None:
    try:
        check_room(value)
    except TooLarge:
        raise DefinitionError(f"a value takes at most {MAX_PAYLOAD} bytes") from None


def condition_of(value: Given, what: str) -> Expression:
    """The tree of a condition: a reference, true or false."""
    if isinstance(value, (Ref, bool)):
        return tree_of(value)
    raise DefinitionError(f"{what} is a condition such as f.input['cents'] > 100, not {value!r}")


def text_of(parts: tuple[Given, ...]) -> Ref:
    """Text that contains values."""
    found: list[str | Expression] = []
    for part in parts:
        tree = tree_of(part)
        if isinstance(tree, Value) and isinstance(tree.value, str):
            if found and isinstance(found[-1], str):
                found[-1] += tree.value
            elif tree.value:
                found.append(tree.value)
        elif isinstance(tree, Text):
            raise DefinitionError("text inside text: give all parts to one f.text(…)")
        else:
            found.append(tree)
    if len(found) < 2:
        raise DefinitionError('f.text("order ", f.input["id"]): text has parts, and one of them is not text')
    return Ref(Text(tuple(found)))


def _operand(value: Given) -> Expression:
    """The tree of an operand. Text with values in it is not allowed in an expression."""
    tree = tree_of(value)
    left = [(tree, 1)]
    for _ in range(MAX_NODES):
        if not left:
            return tree
        each, depth = left.pop()
        if isinstance(each, Text):
            raise DefinitionError("text with values in it is a value of its own: give f.text(…) all its parts")
        if depth >= MAX_DEPTH:
            break
        left += [(inner, depth + 1) for inner in _inside(each)]
    raise DefinitionError(
        f"an expression has at most {MAX_DEPTH} levels and {MAX_NODES} parts: put some of it in a step of its own"
    )


def _inside(tree: Expression) -> tuple[Expression, ...]:
    match tree:
        case Unary(_, of):
            return (of,)
        case Binary(_, left, right):
            return left, right
        case Items(items):
            return items
        case Fields(fields):
            return tuple(each for _, each in fields)
        case _:
            return ()


def _number(value: int | float) -> Value:
    fits = -(2**63) <= value < 2**64 if isinstance(value, int) else value - value == 0
    if not fits:
        raise DefinitionError(f"{value!r:.60} is not a number that a journal can hold")
    return Value(int(value) if isinstance(value, int) else float(value))
