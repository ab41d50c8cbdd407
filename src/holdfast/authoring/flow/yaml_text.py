"""YAML text to nodes with places: the plain part of YAML 1.2, read from the parser's events.

No anchors, aliases, tags or merge keys, so nothing in a file expands or names a class, and no duplicate keys. Plain
scalars mean what YAML 1.2's core schema says: ``no`` is text. The library is an extra, imported when a YAML file is
first read; JSON files do not need it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from holdfast.authoring.flow.located import MAX_NESTING, Mark, Node, Note, Unreadable, number
from holdfast.errors import UsageError
from holdfast.extras import install_command

__all__ = ["read_yaml"]

_WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BASED: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_BREAK: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_CONTROL: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def read_yaml(text: str, note: Note) -> Node:
    """Reads the document. Reports to `note` what it leaves out. Raises `Unreadable` with the place and the reason, or
    `UsageError` if the library is not installed."""
    try:
        import yaml as library
    except ImportError:
        raise UsageError(
            "flows in YAML need a library that is not installed. "
            f"Install it, or write them in JSON: {install_command('flows')}"
        ) from None
    yaml: Any = library
    if found := _CONTROL.search(text):
        before = text[: found.start()]
        mark = Mark(before.count("\n") + 1, found.start() - before.rfind("\n"))
        raise Unreadable(f"the character U+{ord(found[0]):04X} is not allowed in YAML", mark)
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Composer(iter(yaml.parse(text, Loader=loader)), yaml, note).document()
    except yaml.MarkedYAMLError as error:
        mark = _within(text, error.problem_mark or error.context_mark)
        raise Unreadable(_explained(error, text, mark), mark) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise Unreadable(f"this is not YAML: {error}".splitlines()[0][:200], Mark(1, 1)) from None


def _within(text: str, mark: Any) -> Mark:
    """A mark of the library, which may lie after the end."""
    lines = _BREAK.split(text)
    if mark is None or mark.line >= len(lines):
        return Mark(len(lines), len(lines[-1]) + 1)
    return Mark(mark.line + 1, mark.column + 1)


def _explained(error: Any, text: str, mark: Mark) -> str:
    problem = error.problem or "this is not YAML"
    if _BREAK.split(text)[mark.line - 1][mark.column - 1 :].startswith("\t"):
        return "a tab: YAML is indented with spaces"
    return f"this is not YAML: {problem}" + (f" ({error.context})" if error.context else "")


class _Composer:
    """Builds nodes from events, with a limit on depth. YAML features that flows do not have are noted and left out, so
    that one check reports all of them: anchors and tags are ignored, an alias becomes null, and of two equal keys the
    first counts.
    """

    def __init__(self, events: Iterator[Any], yaml: Any, note: Note) -> None:
        self._events = events
        self._yaml = yaml
        self._note = note

    def document(self) -> Node:
        yaml = self._yaml
        node: Node | None = None
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if node is not None:
                    raise Unreadable("a second document begins here: one file holds one flow", _mark(event))
            elif isinstance(event, yaml.NodeEvent):
                node = self._node(event, 0)
        if node is None:
            raise Unreadable("the file is empty", Mark(1, 1))
        return node

    def _node(self, event: Any, depth: int) -> Node:
        yaml, mark = self._yaml, _mark(event)
        if isinstance(event, yaml.AliasEvent):
            self._note(mark, f"an alias (*{event.anchor[:40]}) is not allowed in flows: write the value out")
            return Node(None, mark)
        if event.anchor is not None:
            self._note(mark, f"an anchor (&{event.anchor[:40]}) is not allowed in flows: write the value out")
        if event.tag is not None:
            self._note(mark, f"a tag ({event.tag[:60]}) is not allowed in flows, which have plain values only")
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event, mark)
        if depth >= MAX_NESTING:
            raise Unreadable(f"more than {MAX_NESTING} levels", mark)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(mark, depth + 1)
        return self._mapping(mark, depth + 1)

    def _sequence(self, mark: Mark, depth: int) -> Node:
        items: list[Node] = []
        for event in self._events:
            if isinstance(event, self._yaml.SequenceEndEvent):
                break
            items.append(self._node(event, depth))
        return Node(items, mark)

    def _mapping(self, mark: Mark, depth: int) -> Node:
        fields: dict[str, Node] = {}
        for event in self._events:
            if isinstance(event, self._yaml.MappingEndEvent):
                break
            at = _mark(event)
            key = self._key(event, depth)
            node = self._node(next(self._events), depth)
            node.key = at
            if key is None:
                continue
            if fields.setdefault(key, node) is not node:
                first = fields[key].key
                self._note(at, f"the key {key[:60]!r} appears twice; the first is in line {first.line}")
        return Node(fields, mark)

    def _key(self, event: Any, depth: int) -> str | None:
        """The key; None if it is not a key of a flow, whose value is then left out."""
        node = self._node(event, depth)
        if isinstance(event, self._yaml.AliasEvent):
            return None
        if not isinstance(event, self._yaml.ScalarEvent):
            raise Unreadable("a key is text, not a list or a mapping", node.mark)
        if event.value == "<<" and not event.style:
            self._note(node.mark, "a merge key (<<) is not allowed in flows: write the values out")
            return None
        return str(event.value)


def _mark(event: Any) -> Mark:
    return Mark(event.start_mark.line + 1, event.start_mark.column + 1)


def _scalar(event: Any, mark: Mark) -> Node:
    text: str = event.value
    value = text if event.style else _resolved(text, mark)
    quotes = 1 if event.style in {'"', "'"} else 0
    start, end = event.start_mark, event.end_mark
    is_verbatim = start.line == end.line and end.column - start.column == len(text) + 2 * quotes
    return Node(value, mark, lead=quotes if is_verbatim else -1)


def _resolved(text: str, mark: Mark) -> Any:
    """The value of a plain scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.fullmatch(text) or _BASED.fullmatch(text):
        value = number(text)
        if value is None:
            raise Unreadable("the number is too large", mark)
        return value
    if _NOT_FINITE.fullmatch(text):
        raise Unreadable(f"{text} is not a JSON number", mark)
    return text
