"""Parses text to expression trees, bounded in size and depth. Every error names the character.

Grammar, from loose to tight: ``or``, ``and``, ``not``, comparisons (which do not chain), ``+ -``, ``* /``, unary ``-``,
``??`` (to the right), then constants, lists, objects, parentheses and paths.
"""

from __future__ import annotations

import difflib
import re
from typing import Any, Literal, cast

import msgspec

from holdfast.authoring.flow.expressions import (
    MAX_DEPTH,
    ROOTS,
    Binary,
    BinaryOperator,
    Expression,
    Fields,
    Items,
    Json,
    Path,
    Text,
    Unary,
    Value,
)
from holdfast.authoring.flow.written import COMPARISON, MINUS_POWER, NOT_POWER, POWERS
from holdfast.core.guards import is_dict, is_list
from holdfast.errors import InvalidExpression

__all__ = ["MAX_LENGTH", "parse_expression", "parse_text", "parse_value"]

MAX_LENGTH = 4_000
"""Maximum length of a text with expressions."""

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
      | (?P<name>[^\W\d]\w*)
      | (?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<sign>\?\?|==|!=|<=|>=|[-+*/<>.\[\](),{}:])
    )""",
    re.VERBOSE,
)
_OPENING = re.compile(r"\$\$\{|\$\{")
_WORDS = {"true": True, "false": False, "null": None}
_INSTEAD = {
    "&&": "and",
    "||": "or",
    "!": "not",
    "=": "==",
    "None": "null",
    "True": "true",
    "False": "false",
    "===": "==",
}

_Kind = Literal["number", "name", "quoted", "sign", "end"]


def parse_value(value: Json, depth: int = 0) -> Expression:
    """The tree of a JSON value whose texts may contain `${…}`. Raises `InvalidExpression` with the offset within that
    text."""
    if depth > MAX_DEPTH:
        raise InvalidExpression(f"more than {MAX_DEPTH} levels", offset=0)
    if is_dict(value):
        return Fields(tuple((key, parse_value(each, depth + 1)) for key, each in value.items()))
    if is_list(value):
        return Items(tuple(parse_value(each, depth + 1) for each in value))
    return parse_text(value, depth) if isinstance(value, str) else Value(value)


def parse_text(text: str, depth: int = 0) -> Expression:
    """The tree of one text: a whole `${…}` keeps the type of its value, inside text it becomes text.

    ``$${`` stands for the characters ``${``.
    """
    if "${" not in text:
        return Value(text)
    if len(text) > MAX_LENGTH:
        raise InvalidExpression(
            f"{len(text)} characters; text with expressions has at most {MAX_LENGTH}", offset=MAX_LENGTH
        )
    parts: list[str | Expression] = []
    at = 0
    while opening := _OPENING.search(text, at):
        _add(parts, text[at : opening.start()])
        if opening[0] == "$${":
            _add(parts, "${")
            at = opening.end()
            continue
        parser = _Parser(text, opening.end(), depth)
        tree = parser.whole("}")
        at = parser.at
        if opening.start() == 0 and at == len(text):
            return tree
        _add(parts, tree.value if isinstance(tree, Value) and isinstance(tree.value, str) else tree)
    _add(parts, text[at:])
    return Value(parts[0]) if len(parts) == 1 and isinstance(parts[0], str) else Text(tuple(parts))


def parse_expression(text: str) -> Expression:
    """The tree of one expression, without `${` and `}` around it."""
    if len(text) > MAX_LENGTH:
        raise InvalidExpression(f"{len(text)} characters; an expression has at most {MAX_LENGTH}", offset=MAX_LENGTH)
    return _Parser(text, 0, 0).whole("")


def _add(parts: list[str | Expression], part: str | Expression) -> None:
    if isinstance(part, str) and parts and isinstance(parts[-1], str):
        parts[-1] += part
    elif part != "":
        parts.append(part)


class _Parser:
    """Reads one expression, token by token. `at` is where the current token ends."""

    def __init__(self, text: str, at: int, depth: int) -> None:
        self._text = text
        self._outer = depth
        self.at = at
        self._start = at
        self._kind: _Kind = "end"
        self._token = ""
        self._next()

    def whole(self, closing: str) -> Expression:
        """The expression up to `closing`, or up to the end."""
        tree, _ = self._binary(0, self._outer)
        if not self._is(closing):
            if self._kind == "end" and closing:
                raise self._error("is not closed: a '}' is missing")
            raise self._unexpected()
        return tree

    # -- tokens --------------------------------------------------------------------------------------------------------

    def _next(self) -> None:
        match = _TOKEN.match(self._text, self.at)
        if match is None:
            self._start = self.at + len(self._text[self.at :]) - len(self._text[self.at :].lstrip())
            self._kind, self._token = "end", ""
            if self._start < len(self._text):
                raise self._stray()
            return
        self._kind = cast("_Kind", match.lastgroup)
        self._token = match[self._kind]
        self._start, self.at = match.start(self._kind), match.end()

    def _is(self, token: str) -> bool:
        return self._token == token and self._kind in {"sign", "name", "end"}

    def _take(self, token: str) -> None:
        if not self._is(token):
            raise self._unexpected(f"; {token!r} was expected")
        self._next()

    def _error(self, problem: str) -> InvalidExpression:
        return InvalidExpression(problem, offset=self._start)

    def _stray(self) -> InvalidExpression:
        found = self._text[self._start]
        if found in "\"'":
            return self._error("a text is not closed")
        two = self._text[self._start : self._start + 2]
        instead = _INSTEAD.get(two) or _INSTEAD.get(found)
        return self._error(f"{found!r} is not part of an expression" + (f": write {instead!r}" if instead else ""))

    def _unexpected(self, more: str = "") -> InvalidExpression:
        if self._kind == "end":
            return self._error(f"it ends too early{more}")
        if self._is("("):
            return self._error("there are no calls in expressions: put the work in a step")
        return self._error(f"{self._token!r} is not expected here{more}")

    # -- grammar: each returns a tree and how deep it is ---------------------------------------------------------------

    def _binary(self, power: int, depth: int) -> tuple[Expression, int]:
        tree, deep = self._prefix(depth)
        while self._kind in {"sign", "name"} and (own := POWERS.get(self._token, -1)) >= power:
            operator = cast("BinaryOperator", self._token)
            self._next()
            right, right_deep = self._binary(own if operator == "??" else own + 1, depth + 1)
            tree, deep = Binary(operator, tree, right), max(deep, right_deep) + 1
            self._bound(depth + deep)
            if own == COMPARISON and POWERS.get(self._token) == COMPARISON and self._kind == "sign":
                raise self._error("comparisons do not chain: join two of them with 'and'")
        return tree, deep

    def _prefix(self, depth: int) -> tuple[Expression, int]:
        self._bound(depth)
        if self._is("not"):
            self._next()
            of, deep = self._binary(NOT_POWER, depth + 1)
            return Unary("not", of), deep + 1
        if self._is("-"):
            self._next()
            if self._kind == "number":
                return Value(self._number(-1)), 1
            of, deep = self._binary(MINUS_POWER, depth + 1)
            return Unary("-", of), deep + 1
        return self._operand(depth)

    def _operand(self, depth: int) -> tuple[Expression, int]:
        if self._kind == "number":
            return Value(self._number(1)), 1
        if self._kind == "quoted":
            return Value(self._quoted()), 1
        if self._kind == "name":
            return self._named(), 1
        if self._is("("):
            self._next()
            tree, deep = self._binary(0, depth + 1)
            self._take(")")
            return tree, deep
        if self._is("["):
            return self._list(depth)
        if self._is("{"):
            return self._object(depth)
        raise self._unexpected()

    def _list(self, depth: int) -> tuple[Expression, int]:
        self._next()
        items: list[Expression] = []
        deepest = 0
        while not self._is("]"):
            tree, deep = self._binary(0, depth + 1)
            items.append(tree)
            deepest = max(deepest, deep)
            if not self._is("]"):
                self._take(",")
        self._next()
        return Items(tuple(items)), deepest + 1

    def _object(self, depth: int) -> tuple[Expression, int]:
        self._next()
        fields: dict[str, Expression] = {}
        deepest = 0
        while not self._is("}"):
            if self._kind not in {"name", "quoted"}:
                raise self._unexpected("; a key was expected")
            start, key = self._start, self._token
            if self._kind == "quoted":
                key = self._quoted()
            else:
                self._next()
            if key in fields:
                raise InvalidExpression(f"the key {key!r} appears twice", offset=start)
            self._take(":")
            tree, deep = self._binary(0, depth + 1)
            fields[key] = tree
            deepest = max(deepest, deep)
            if not self._is("}"):
                self._take(",")
        self._next()
        return Fields(tuple(fields.items())), deepest + 1

    def _named(self) -> Expression:
        name = self._token
        if name in _WORDS:
            self._next()
            return Value(_WORDS[name])
        if name in POWERS or name == "not":
            raise self._unexpected()
        if name not in ROOTS:
            close = difflib.get_close_matches(name, [*ROOTS, *_WORDS], 1)
            instead = _INSTEAD.get(name) or (close[0] if close else "")
            hint = f": did you mean {instead!r}?" if instead else f". Paths begin with {', '.join(ROOTS)}"
            raise self._error(f"{name!r} is not known{hint}")
        self._next()
        return Path(name, self._parts())

    def _parts(self) -> tuple[str | int, ...]:
        parts: list[str | int] = []
        while True:
            if self._is("."):
                self._next()
                if self._kind != "name":
                    raise self._unexpected("; a name was expected after '.'")
                parts.append(self._token)
                self._next()
            elif self._is("["):
                self._next()
                parts.append(self._index())
                self._take("]")
            else:
                return tuple(parts)

    def _index(self) -> str | int:
        if self._kind == "quoted":
            return self._quoted()
        sign = -1 if self._is("-") else 1
        if sign < 0:
            self._next()
        if self._kind == "number" and self._token.isdigit():
            return int(self._number(sign))
        raise self._error("an index is a whole number or a text in quotes")

    def _number(self, sign: int) -> int | float:
        token = self._token
        if token.isdigit():
            number = int(token) if len(token) <= 20 else 2**64
            if not -(2**63) <= sign * number < 2**64:
                raise self._error("the number is too large")
            value: int | float = sign * number
        else:
            value = sign * float(token)
            if value in {float("inf"), float("-inf")}:
                raise self._error("the number is too large")
        self._next()
        return value

    def _quoted(self) -> str:
        token = self._token
        if token[0] == "'":
            inner = re.sub(r"\\'|\"", lambda found: "'" if found[0] == "\\'" else '\\"', token[1:-1])
            token = f'"{inner}"'
        try:
            value: Any = msgspec.json.decode(token)
        except (msgspec.DecodeError, UnicodeEncodeError):
            raise self._error("texts are written as in JSON, with escapes such as \\n \\t \\u0041") from None
        self._next()
        return str(value)

    def _bound(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise self._error(f"more than {MAX_DEPTH} levels: move a part of it into a separate step")
