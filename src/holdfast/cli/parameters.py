"""The types of option values.

A wrong value is wrong usage, reported before anything is done. Each type is a function that parses the text, and
`--help` shows its name.
"""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

from holdfast.core.durations import ACCEPTED, parse_duration
from holdfast.core.given_json import given_json
from holdfast.core.instants import LONGEST_KEPT, kept_instant
from holdfast.core.status import Status, parse_status
from holdfast.errors import InvalidInput


def duration(text: str) -> timedelta:
    """`500ms`, `30s`, `1h30m`, `3d`."""
    try:
        return parse_duration(text, most=LONGEST_KEPT)
    except InvalidInput as error:
        problem = str(error).removeprefix("duration: ").removesuffix(ACCEPTED).strip()
        problem = problem.replace(" for seconds, or the number without quotes", " for seconds")
        raise click.BadParameter(f"{problem} Durations are written 500ms, 30s, 1h30m, 3d, 2w.") from error


def moment(text: str) -> timedelta | datetime:
    """A duration from now, or an instant such as `2026-07-01T12:00Z`."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return duration(text)
    if at.tzinfo is None:
        raise click.BadParameter(f"{text!r} has no time zone: add Z for UTC, or an offset such as +02:00")
    try:
        return kept_instant(at, "the instant")
    except InvalidInput as error:
        raise click.BadParameter(str(error)) from error


def statuses(text: str) -> tuple[Status, ...]:
    """Statuses of runs, separated by commas."""
    try:
        return tuple(parse_status(word.strip()) for word in text.split(","))
    except InvalidInput as error:
        raise click.BadParameter(str(error)) from error


def pair(text: str) -> tuple[str, str]:
    """`name=value`."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{text!r} is not of the form name=value")
    return name, value


def by_name(given: tuple[tuple[str, str], ...], what: str) -> dict[str, str]:
    """Repeated `name=value` as a dict; a name given twice is refused."""
    found: dict[str, str] = {}
    for name, text in given:
        if name in found:
            raise click.UsageError(f"{what} {name!r} is given twice")
        found[name] = text
    return found


def read_text(given: str, what: str) -> bytes:
    """The given text: itself, that of a file (`@FILE`), or standard input (`-`)."""
    if given == "-":
        return sys.stdin.buffer.read()
    if given.startswith("@"):
        try:
            return Path(given[1:]).read_bytes()
        except OSError as error:
            raise click.UsageError(f"{what} {given}: {error.strerror}") from error
    return given.encode(errors="surrogateescape")


def read_json(given: str, what: str = "the value") -> Any:
    """The JSON in such a text."""
    try:
        return given_json(read_text(given, what), what)
    except InvalidInput as error:
        hint = " Quote strings as JSON: '\"hello\"'." if "is not JSON" in str(error) else ""
        raise click.UsageError(f"{error}.{hint}") from None
