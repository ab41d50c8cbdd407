"""The contents of a file with the place of every part: the common form of YAML and JSON text before it is
interpreted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from holdfast.core.guards import is_dict, is_list
from holdfast.errors import InvalidFlow, Problem

__all__ = [
    "MAX_NESTING",
    "MAX_SIZE",
    "Mark",
    "Node",
    "Note",
    "Unreadable",
    "find",
    "from_plain",
    "number",
    "refused",
    "to_plain",
]

MAX_NESTING: Final = 64
"""Maximum nesting of a file, far above that of any real flow."""

MAX_SIZE: Final = 16 * 1024 * 1024
"""Maximum size of a file in bytes."""


class Mark(NamedTuple):
    """A place in a file, counted from 1; (0, 0) where there is none."""

    line: int = 0
    column: int = 0


NOWHERE: Final = Mark()


@dataclass(slots=True)
class Node:
    """A scalar, a list of nodes, or a mapping from text to nodes.

    `key` is the place of a member's key. `lead` is the number of characters (a quote) before the text of a scalar, if
    the file has that text unchanged on one line; otherwise -1.
    """

    value: Any
    mark: Mark = NOWHERE
    key: Mark = NOWHERE
    lead: int = -1

    def at(self, offset: int) -> Mark:
        """The place of a character of its text, as precisely as it is known."""
        return self.mark if self.lead < 0 else Mark(self.mark.line, self.mark.column + self.lead + offset)

    def child(self, part: str | int) -> Node | None:
        """The member of that name or number."""
        found: Node | None = None
        if is_dict(self.value):
            found = self.value.get(part)
        elif is_list(self.value) and isinstance(part, int) and 0 <= part < len(self.value):
            found = self.value[part]
        return found

    def shown(self) -> str:
        """The value for a message, shortened."""
        if is_dict(self.value) or is_list(self.value):
            return "a mapping" if is_dict(self.value) else "a list"
        text = "null" if self.value is None else repr(self.value)
        return text if len(text) <= 60 else f"{text[:50]}…"


Note: TypeAlias = Callable[[Mark, str], None]
"""Takes a problem after which the rest of the text can still be read."""


class Unreadable(Exception):
    """Text that is not YAML or JSON, or exceeds a limit: the rest of it cannot be read."""

    def __init__(self, message: str, mark: Mark) -> None:
        super().__init__(message)
        self.mark = mark


def to_plain(node: Node) -> Any:
    """The JSON value, without places."""
    if is_dict(node.value):
        return {key: to_plain(each) for key, each in node.value.items()}
    return [to_plain(each) for each in node.value] if is_list(node.value) else node.value


def from_plain(value: Any) -> Node:
    """Nodes without places. The value was written by `format`, so its depth is far below `MAX_NESTING`."""
    if is_dict(value):
        return Node({key: from_plain(each) for key, each in value.items()})
    return Node([from_plain(each) for each in value]) if is_list(value) else Node(value)


def find(root: Node, path: Sequence[str | int]) -> Node:
    """The node at that path, or the last one on the way to it."""
    node = root
    for part in path:
        inside = node.child(part)
        if inside is None:
            break
        node = inside
    return node


def refused(what: str, problems: Sequence[Problem]) -> InvalidFlow:
    """The error with everything that is wrong."""
    wrong = sorted((each for each in problems if not each.is_warning), key=lambda each: (each.line, each.column))
    count = len(wrong)
    listed = "\n".join(f"  {problem}" for problem in wrong[:SHOWN])
    more = f"\n  … and {count - SHOWN} more" if count > SHOWN else ""
    return InvalidFlow(f"{what}: {count} problem{'s' if count != 1 else ''}:\n{listed}{more}", problems=wrong)


SHOWN: Final = 100
"""Maximum number of problems in one message; the error itself has all."""


def number(text: str) -> int | float | None:
    """A number as YAML and JSON write it; None if a journal cannot hold it (64 bits, or a finite float)."""
    digits = text.lstrip("+-")
    if digits[:2] in {"0o", "0x"}:
        value = int(digits, 0) if len(digits) < 30 else _TOO_LARGE
    elif digits.isdigit():
        significant = digits.lstrip("0") or "0"
        value = int(significant) if len(significant) <= 20 else _TOO_LARGE
    else:
        found = float(text)
        return found if math.isfinite(found) else None
    value = -value if text.startswith("-") else value
    return value if -(2**63) <= value < 2**64 else None


_TOO_LARGE: Final = 2**64
