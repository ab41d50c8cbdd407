"""JSON text to nodes with places. One pass, bounded in depth, strict: no duplicate keys, no NaN, no half surrogates."""

from __future__ import annotations

import re
from bisect import bisect_right
from json import JSONDecodeError, JSONDecoder
from typing import Any, Final

from holdfast.authoring.flow.located import MAX_NESTING, Mark, Node, Note, Unreadable, number

__all__ = ["read_json"]

_STRINGS: Final = JSONDecoder()
_BLANK: Final = re.compile(r"[ \t\r\n]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS: Final = {"true": True, "false": False, "null": None}
_WORD: Final = re.compile(r"\w+")


def read_json(text: str, note: Note) -> Node:
    """Reads the document. `note` is told of duplicate keys, of which the first counts. Raises `Unreadable` with the
    place and the reason."""
    return _Reader(text, note).document()


class _Reader:
    def __init__(self, text: str, note: Note) -> None:
        self._text = text
        self._note = note
        self._at = 0
        self._lines = [0, *(found.end() for found in re.finditer("\n", text))]

    def document(self) -> Node:
        self._skip()
        node = self._value(0)
        self._skip()
        if self._at < len(self._text):
            raise self._error("there is more text after the end of the JSON")
        return node

    def _mark(self, at: int) -> Mark:
        line = bisect_right(self._lines, at)
        return Mark(line, at - self._lines[line - 1] + 1)

    def _error(self, message: str, at: int | None = None) -> Unreadable:
        return Unreadable(message, self._mark(self._at if at is None else at))

    def _skip(self) -> None:
        found = _BLANK.match(self._text, self._at)
        self._at = found.end() if found is not None else self._at

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _value(self, depth: int) -> Node:
        start = self._at
        match self._peek():
            case "{":
                return self._object(depth + 1)
            case "[":
                return self._list(depth + 1)
            case '"':
                text = self._string()
                return Node(text, self._mark(start), lead=1 if self._at - start == len(text) + 2 else -1)
            case "":
                raise self._error("the JSON ends too early")
            case _:
                return Node(self._scalar(), self._mark(start))

    def _scalar(self) -> Any:
        start = self._at
        if found := _NUMBER.match(self._text, start):
            self._at = found.end()
            value = number(found[0])
            if value is None:
                raise self._error("the number is too large", start)
            return value
        word = _WORD.match(self._text, start)
        if word is not None and word[0] in _WORDS:
            self._at = word.end()
            return _WORDS[word[0]]
        culprit = (word[0] if word else self._peek())[:20]
        raise self._error(f"{culprit!r} is not JSON: put text in double quotes", start)

    def _string(self) -> str:
        start = self._at
        try:
            found, self._at = _STRINGS.raw_decode(self._text, start)
        except JSONDecodeError as error:
            raise self._error(error.msg[0].lower() + error.msg[1:].removesuffix(" at"), error.pos) from None
        text = str(found)
        if not text.isascii() and any("\ud800" <= each <= "\udfff" for each in text):
            raise self._error("half of a surrogate pair is not text", start)
        return text

    def _open(self, depth: int) -> int:
        if depth > MAX_NESTING:
            raise self._error(f"more than {MAX_NESTING} levels")
        self._at += 1
        self._skip()
        return self._at - 1

    def _list(self, depth: int) -> Node:
        mark = self._mark(self._at)
        self._open(depth)
        items: list[Node] = []
        while self._peek() != "]":
            items.append(self._value(depth))
            self._separate("]")
        self._at += 1
        return Node(items, mark)

    def _object(self, depth: int) -> Node:
        mark = self._mark(self._at)
        self._open(depth)
        fields: dict[str, Node] = {}
        while self._peek() != "}":
            key_at = self._at
            if self._peek() != '"':
                raise self._error("a key in double quotes was expected" if self._peek() else "the JSON ends too early")
            key = self._string()
            self._skip()
            if self._peek() != ":":
                raise self._error("':' was expected after the key")
            self._at += 1
            self._skip()
            node = self._value(depth)
            node.key = self._mark(key_at)
            if fields.setdefault(key, node) is not node:
                first = fields[key].key
                self._note(node.key, f"the key {key[:60]!r} appears twice; the first is in line {first.line}")
            self._separate("}")
        self._at += 1
        return Node(fields, mark)

    def _separate(self, closing: str) -> None:
        """Moves past a comma, or up to the closing bracket."""
        self._skip()
        if self._peek() == closing:
            return
        if self._peek() != ",":
            raise self._error(f"',' or {closing!r} was expected")
        comma = self._at
        self._at += 1
        self._skip()
        if self._peek() == closing:
            raise self._error("a comma before the closing bracket", comma)
