"""Attributes, by which runs are found: names and texts, checked where they are given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from holdfast.core.ids import check_name, check_text
from holdfast.errors import InvalidInput

T = TypeVar("T")

LONGEST = 1024
"""Maximum bytes of an attribute."""


def checked_attributes(given: Mapping[str, str] | None) -> dict[str, str]:
    """Attributes of a run, or those to filter by."""
    if given is None:
        return {}
    check_mapping(given)
    return {_name(name): _text(name, text) for name, text in given.items()}


def changed_attributes(given: Mapping[str, str | None]) -> dict[str, str | None]:
    """Changes of a run's attributes; None removes one."""
    return {_name(name): None if text is None else _text(name, text) for name, text in given.items()}


def check_mapping(given: Mapping[str, T]) -> Mapping[str, T]:
    """Refuses what is not a mapping."""
    if not isinstance(given, Mapping):
        raise InvalidInput(f"attributes={given!r}: give a mapping from names to texts, such as {{'tier': 'gold'}}")
    return given


def _name(name: object) -> str:
    return check_name(name, "the name of an attribute")


def _text(name: str, text: object) -> str:
    return check_text(text, f"attributes[{name!r}]", most=LONGEST)
