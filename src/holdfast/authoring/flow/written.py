"""Expressions as text again: text that `parsing` reads, with as few parentheses as possible."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, assert_never

import msgspec

from holdfast.authoring.flow.expressions import Binary, Expression, Fields, Items, Json, Path, Text, Unary, Value

__all__ = ["POWERS", "path_text", "plain", "written"]

POWERS: Final[Mapping[str, int]] = {
    "or": 1,
    "and": 2,
    "==": 4,
    "!=": 4,
    "<": 4,
    "<=": 4,
    ">": 4,
    ">=": 4,
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
    "??": 8,
}
"""Precedence of binary operators: ``a ?? 0 + b ?? 0`` is a sum of two values that each have a fallback."""

NOT_POWER: Final = 3
COMPARISON: Final = 4
MINUS_POWER: Final = 7

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def plain(tree: Expression) -> Json:
    """The tree as the JSON value of a file: structure stays structure, expressions become `${…}`."""
    match tree:
        case Value(str() as text):
            return text.replace("${", "$${")
        case Value(value):
            return value
        case Items(items):
            return [plain(item) for item in items]
        case Fields(fields):
            return {key: plain(value) for key, value in fields}
        case Text(parts):
            return "".join(_literal(part) if isinstance(part, str) else f"${{{written(part)}}}" for part in parts)
        case Path() | Unary() | Binary():
            return f"${{{written(tree)}}}"
        case _:
            assert_never(tree)


def written(tree: Expression, power: int = 0) -> str:
    """The tree as one expression, in parentheses if it binds less tightly than `power`."""
    match tree:
        case Value(value):
            return _scalar(value)
        case Path():
            return path_text(tree)
        case Unary("not", of):
            return _wrapped(f"not {written(of, NOT_POWER)}", NOT_POWER, power)
        case Unary(_, of):
            text = written(of, MINUS_POWER)
            is_digit = text[0].isdigit()  # a minus and a digit are one number
            return _wrapped(f"-({text})" if is_digit else f"-{text}", MINUS_POWER, power)
        case Binary(operator, left, right):
            own = POWERS[operator]
            # Comparisons do not chain and ?? groups to the right, so the side that would bind first gets parentheses.
            left_power = own + 1 if operator == "??" or own == COMPARISON else own
            right_power = own if operator == "??" else own + 1
            return _wrapped(f"{written(left, left_power)} {operator} {written(right, right_power)}", own, power)
        case Items(items):
            return f"[{', '.join(written(item) for item in items)}]"
        case Fields(fields):
            return f"{{{', '.join(f'{_quoted(key)}: {written(value)}' for key, value in fields)}}}"
        case Text(parts):
            # Text is no operator: inside an expression it is a sum. A reader never meets one; messages may.
            return " + ".join(_quoted(part) if isinstance(part, str) else written(part, 7) for part in parts)
        case _:
            assert_never(tree)


def path_text(path: Path) -> str:
    """``steps.price.cents``"""
    text: str = path.root
    for part in path.parts:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if _NAME.fullmatch(part) else f"[{_quoted(part)}]"
    return text


def _literal(part: str) -> str:
    """Text before an expression. A dollar at its end must not look like an escape."""
    kept = part.rstrip("$")
    dollars = part[len(kept) :]
    escaped = kept.replace("${", "$${")
    return f"{escaped}${{{_quoted(dollars)}}}" if dollars else escaped


def _wrapped(text: str, own: int, power: int) -> str:
    return f"({text})" if own < power else text


def _scalar(value: bool | int | float | str | None) -> str:
    return _quoted(value) if isinstance(value, str) else msgspec.json.encode(value).decode()


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()
