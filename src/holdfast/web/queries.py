"""Parameters of a request: each is read by its type. Wrong values and unknown parameters are refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from urllib.parse import parse_qsl

from holdfast.core.ids import check_name
from holdfast.core.instants import instant_before
from holdfast.core.status import Status, parse_status
from holdfast.errors import InvalidInput
from holdfast.ports.runs import Filter
from holdfast.web.problems import Problem

FILTERS = (
    "status", "workflow", "version", "queue", "parent", "root", "key", "worker", "attribute", "since", "until", "q",
)  # fmt: skip
"""The parameters of every list of runs."""

ERROR = "error"
"""Runs whose error contains this text. Only lists take it: counts and bulk acts look at no errors."""

LONGEST = 8192


class Query:
    """The query string."""

    def __init__(self, raw: bytes) -> None:
        if len(raw) > LONGEST:
            raise Problem(400, "BadRequest", f"the query string is longer than {LONGEST} bytes")
        try:
            text = raw.decode("ascii")
            self._pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), errors="strict")
        except ValueError as error:
            raise Problem(400, "BadRequest", f"the query string cannot be read: {error}") from None
        for _, value in self._pairs:
            if "\0" in value:
                raise Problem(400, "BadRequest", "the query string holds a NUL")

    def names(self) -> set[str]:
        return {name for name, _ in self._pairs}

    def all(self, name: str) -> list[str]:
        """Every value of a parameter that may be repeated."""
        return [value for one, value in self._pairs if one == name]

    def text(self, name: str, default: str = "") -> str:
        """A parameter that is given once."""
        found = self.all(name)
        if len(found) > 1:
            raise Problem(400, "BadRequest", f"{name} is given {len(found)} times")
        return found[0] if found else default

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number within bounds."""
        text = self.text(name)
        if not text:
            return default
        if not text.lstrip("-").isdecimal() or not text.isascii() or not least <= int(text[:20]) <= most:
            raise Problem(400, "BadRequest", f"{name}={text!r}: give a whole number between {least} and {most}")
        return int(text)

    def flag(self, name: str) -> bool:
        text = self.text(name, "false").lower()
        if text not in {"true", "false", "1", "0"}:
            raise Problem(400, "BadRequest", f"{name}={text!r}: use true or false")
        return text in {"true", "1"}

    def seq(self, name: str, default: int = 0) -> int:
        """The seq of a journal row."""
        return read_seq(self.text(name), name, default)

    def instant(self, name: str, now: datetime, default: datetime | None = None) -> datetime | None:
        """An instant, or a duration back from now."""
        text = self.text(name)
        return read_instant(text, name, now) if text else default

    def filter(self, now: datetime) -> Filter:
        """The filter of runs."""
        attributes = [_pair(text) for text in self.all("attribute")]
        prefix = ""
        for word in self.text("q").split():
            name, equals, value = word.partition("=")
            if equals and name:
                attributes.append((name, value))
            elif prefix:
                raise Problem(400, "BadRequest", f"q: {prefix!r} and {word!r} are two beginnings of an id; give one")
            else:
                prefix = word
        return Filter(
            statuses=_statuses(self.all("status")),
            workflow=self.text("workflow"),
            version=self.text("version") if "version" in self.names() else None,
            queue=self.text("queue"),
            parent=self.text("parent"),
            root=self.text("root"),
            key=self.text("key"),
            worker=self.text("worker"),
            attributes=_by_name(attributes),
            since=self.instant("since", now),
            until=self.instant("until", now),
            prefix=prefix,
        )


def read_seq(text: str, name: str, default: int = 0) -> int:
    """The seq of a journal row; empty is the default."""
    if not text:
        return default
    if not text.isdecimal() or not text.isascii() or int(text[:20]) >= 2**63:
        raise Problem(400, "BadRequest", f"{name}={text[:80]!r} is not a seq; pass the value of an answer unchanged")
    return int(text)


def read_instant(text: str, name: str, now: datetime) -> datetime:
    """An instant, or a duration back from now."""
    try:
        return instant_before(now, text, name)
    except InvalidInput as error:
        raise Problem(400, "BadRequest", str(error)) from None


def _statuses(words: Sequence[str]) -> tuple[Status, ...]:
    try:
        return tuple(parse_status(word) for word in words)
    except InvalidInput as error:
        raise Problem(400, "BadRequest", str(error)) from None


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise Problem(400, "BadRequest", f"attribute={text!r}: write attribute=name=value")
    return name, value


def _by_name(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    try:
        return {check_name(name, "the name of an attribute"): value for name, value in pairs}
    except InvalidInput as error:
        raise Problem(400, "BadRequest", str(error)) from None
