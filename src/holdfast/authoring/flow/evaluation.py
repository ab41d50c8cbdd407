"""Evaluates expressions. Pure, typed and strict.

**A missing value** (no such field, an index past the end, a step that was skipped) is false to ``if``, ``not``, ``and``
and ``or``, equal to ``null``, and replaced by ``??``. Anywhere else it is an error that names the place: a mistyped
field never becomes a silent null.

**Types are not converted**: ``"1" + 1`` is an error; true is not a number. Numbers stay what a journal can hold: 64
bits, finite.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard, assert_never, cast

from holdfast.authoring.flow.expressions import Binary, Expression, Fields, Items, Json, Path, Text, Unary, Value
from holdfast.authoring.flow.written import path_text, written
from holdfast.core.codec import encode_plain
from holdfast.core.guards import is_dict, is_list
from holdfast.core.nodes import shown
from holdfast.core.plurals import counted
from holdfast.errors import ExpressionFailed

__all__ = ["evaluate", "is_true"]

_LOWEST, _HIGHEST = -(2**63), 2**64 - 1

_ARITHMETIC: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
_ORDER: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_KINDS = {"null": "null", "bool": "true or false", "int": "a number", "float": "a number", "str": "text"}


@dataclass(frozen=True, slots=True)
class _Absent:
    """A missing value, and why it is missing."""

    reason: str


def evaluate(tree: Expression, known: Mapping[str, Any]) -> Json:
    """The value of the tree. `known` has ``input``, ``steps`` (results by name), ``vars`` and, in an `each`, ``item``.
    Raises `ExpressionFailed`, which says what failed and where."""
    return _present(_value(tree, known))


def is_true(tree: Expression, known: Mapping[str, Any]) -> bool:
    """Whether a condition holds: null, false, 0, empty and missing values are false."""
    return _truth(_value(tree, known))


def _value(tree: Expression, known: Mapping[str, Any]) -> Any:
    match tree:
        case Value(value):
            return value
        case Path():
            return _follow(tree, known)
        case Unary("not", of):
            return not _truth(_value(of, known))
        case Unary(_, of):
            return _number(-_operand(_present(_value(of, known)), tree), tree)
        case Binary("??", left, right):
            found = _value(left, known)
            return _value(right, known) if found is None or isinstance(found, _Absent) else found
        case Binary("and", left, right):
            return _truth(_value(left, known)) and _truth(_value(right, known))
        case Binary("or", left, right):
            return _truth(_value(left, known)) or _truth(_value(right, known))
        case Binary("==", left, right):
            return _is_equal(_or_null(_value(left, known)), _or_null(_value(right, known)))
        case Binary("!=", left, right):
            return not _is_equal(_or_null(_value(left, known)), _or_null(_value(right, known)))
        case Binary():
            return _combine(tree, _present(_value(tree.left, known)), _present(_value(tree.right, known)))
        case Items(items):
            return [_present(_value(item, known)) for item in items]
        case Fields(fields):
            return {key: _present(_value(value, known)) for key, value in fields}
        case Text(parts):
            return "".join(part if isinstance(part, str) else _as_text(_value(part, known)) for part in parts)
        case _:
            assert_never(tree)


def _follow(path: Path, known: Mapping[str, Any]) -> Any:
    if path.root not in known:
        return _Absent(f"{path.root} is not known here")
    at: Any = known[path.root]
    for place, part in enumerate(path.parts):
        if isinstance(part, str) and isinstance(at, Mapping):
            fields = cast("Mapping[str, Any]", at)
            if part in fields:
                at = fields[part]
                continue
        elif isinstance(part, int) and is_list(at) and -len(at) <= part < len(at):
            at = at[part]
            continue
        whole, here = path_text(path), path_text(Path(path.root, path.parts[:place]))
        return _Absent(f"{whole} is not there: {here} {_why(at, part)}")
    return at


def _why(at: Any, part: str | int) -> str:
    if isinstance(part, int):
        return f"has {counted(len(at), 'item')}" if is_list(at) else f"is {_described(at)}, not a list"
    return f"has no {part!r}" if isinstance(at, Mapping) else f"is {_described(at)}, not an object"


def _described(value: Any) -> str:
    if is_list(value) or is_dict(value):
        return "a list" if is_list(value) else "an object"
    return shown(value) if value is None or isinstance(value, (bool, int, float, str)) else type(value).__name__


def _present(value: Any) -> Any:
    if isinstance(value, _Absent):
        raise ExpressionFailed(f"{value.reason}. Write ${{… ?? …}} to say what to use instead.")
    return value


def _or_null(value: Any) -> Any:
    return None if isinstance(value, _Absent) else value


def _truth(value: Any) -> bool:
    return not isinstance(value, _Absent) and bool(value)


def _combine(tree: Binary, left: Any, right: Any) -> Any:
    if tree.operator in _ORDER:
        if (_is_number(left) and _is_number(right)) or (isinstance(left, str) and isinstance(right, str)):
            return _ORDER[tree.operator](left, right)
        raise _misfit(tree, left, right, "two numbers or two texts")
    if tree.operator == "+" and isinstance(left, str) and isinstance(right, str):
        return left + right
    if tree.operator == "+" and is_list(left) and is_list(right):
        return [*left, *right]
    if not (_is_number(left) and _is_number(right)):
        wanted = "two numbers, two texts or two lists" if tree.operator == "+" else "two numbers"
        raise _misfit(tree, left, right, wanted)
    if tree.operator == "/":
        return _number(_divided(left, right, tree), tree)
    try:
        return _number(_ARITHMETIC[tree.operator](left, right), tree)
    except OverflowError:
        raise ExpressionFailed(f"{written(tree)}: the result is too large") from None


def _divided(left: int | float, right: int | float, tree: Expression) -> int | float:
    if right == 0:
        raise ExpressionFailed(f"{written(tree)}: division by zero")
    if isinstance(left, int) and isinstance(right, int) and left % right == 0:
        return left // right
    try:
        return left / right
    except OverflowError:
        raise ExpressionFailed(f"{written(tree)}: the result is too large") from None


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _operand(value: Any, tree: Expression) -> Any:
    if not _is_number(value):
        raise ExpressionFailed(f"{written(tree)}: needs a number, not {_described(value)}")
    return value


def _number(value: int | float, tree: Expression) -> int | float:
    fits = _LOWEST <= value <= _HIGHEST if isinstance(value, int) else math.isfinite(value)
    if not fits:
        raise ExpressionFailed(f"{written(tree)}: the result is too large")
    return value


def _misfit(tree: Binary, left: Any, right: Any, wanted: str) -> ExpressionFailed:
    return ExpressionFailed(
        f"{written(tree)}: {tree.operator!r} needs {wanted}, not {_described(left)} and {_described(right)}"
    )


def _is_equal(left: Any, right: Any) -> bool:
    """Equality of JSON: 1 equals 1.0, and neither equals true. Without recursion: data may be deep."""
    pairs = [(left, right)]
    while pairs:
        a, b = pairs.pop()
        if is_list(a) and is_list(b):
            if len(a) != len(b):
                return False
            pairs.extend(zip(a, b, strict=True))
        elif is_dict(a) and is_dict(b):
            if a.keys() != b.keys():
                return False
            pairs.extend((a[key], b[key]) for key in a)
        elif isinstance(a, bool) is not isinstance(b, bool) or a != b:
            return False
    return True


def _as_text(value: Any) -> str:
    found = _present(value)
    return found if isinstance(found, str) else encode_plain(found, "a text").decode()
