"""Makes users' data safe for a terminal or a log: always one line, bounded, without control sequences.

Control characters, line and paragraph separators, characters that turn the direction of text, and halves of surrogate
pairs become backslash escapes. All values become JSON, even those that JSON cannot express.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from itertools import islice
from typing import Any, cast

MAX_TEXT = 16_000
"""Maximum characters of one text that are shown; the rest is counted."""

MAX_ITEMS, MAX_DEPTH = 200, 8

_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb]"
)
_NEWLINE = re.compile("\r\n|\r|\n")


def one_line(text: str, limit: int = MAX_TEXT) -> str:
    """The text as one safe line."""
    if text.isascii() and text.isprintable() and len(text) <= limit:
        return text
    if len(text) > limit:
        text = f"{text[:limit]}… ({len(text)} characters in all)"
    return _UNSAFE.sub(_escaped, text)


def lines_of(text: str, limit: int = MAX_TEXT) -> list[str]:
    """The safe lines of a text of several lines, such as a traceback."""
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}\n… ({len(text)} characters in all) …\n{text[-half:]}"
    return [one_line(line.replace("\t", "    ")) for line in _NEWLINE.split(text.rstrip())]


def text_of(value: object) -> str:
    """`str(value)`, even if the class raises."""
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 user code
        return f"({type(value).__name__} whose text cannot be read: {type(error).__name__})"


def to_json(value: object, *, ascii_only: bool = False) -> str:
    """One line of strict JSON, complete: a log passes `plain(value)`, which is bounded."""
    import json  # not for `--help`

    text = json.dumps(value, ensure_ascii=ascii_only, allow_nan=False, default=plain)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def plain(value: object, depth: int = 0) -> Any:
    """The value in JSON's types, bounded."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = str.__str__(value)
        return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}… ({len(text)} characters in all)"
    if isinstance(value, int):
        number = int(value)
        return number if number.bit_length() <= 1024 else f"(a number of {number.bit_length()} bits)"
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else repr(float(value))
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if depth >= MAX_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {plain_key(key): plain(item, depth + 1) for key, item in islice(items, MAX_ITEMS)}
    if isinstance(value, list | tuple | set | frozenset):
        found = cast("Iterable[object]", value)
        return [plain(item, depth + 1) for item in islice(found, MAX_ITEMS)]
    return plain(text_of(value))


def plain_key(key: object) -> str:
    return str(plain(key if isinstance(key, str) else text_of(key)))


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
