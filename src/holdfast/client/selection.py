"""Which runs are asked for, and by which texts they are found: what a caller gives, checked before a store sees it.

What one store would refuse and another would not (half a surrogate pair, a NUL), and what is no text at all, is refused
here, the same for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from holdfast.core.ids import check_name, check_text
from holdfast.core.status import Status, parse_status
from holdfast.errors import InvalidInput
from holdfast.ports.runs import Filter

Statuses: TypeAlias = str | Status | Iterable[str | Status]
"""One status or several."""

LONGEST = 1024
"""Bytes of an attribute."""


def selection(
    *,
    workflow: str | None = None,
    version: str | None = None,
    status: Statuses | None = None,
    queue: str | None = None,
    parent: str | None = None,
    root: str | None = None,
    key: str | None = None,
    attributes: Mapping[str, str] | None = None,
) -> Filter:
    """The filter; None lets every run through."""
    return Filter(
        workflow=_text(workflow, "workflow"),
        version=None if version is None else check_text(version, "version="),
        statuses=statuses_of(status),
        queue=_text(queue, "queue"),
        parent=_text(parent, "parent"),
        root=_text(root, "root"),
        key=_text(key, "key"),
        attributes=checked_attributes(attributes),
    )


def statuses_of(given: Statuses | None) -> tuple[Status, ...]:
    """The statuses that were named: one, or an iterable of them."""
    if given is None:
        return ()
    words = (given,) if isinstance(given, str) else given
    if not isinstance(words, Iterable) or isinstance(words, Mapping):
        raise InvalidInput(f"status={given!r}: a status such as 'running', or a list of them")
    return tuple(dict.fromkeys(parse_status(check_text(word, "status=")) for word in words))


def checked_attributes(given: Mapping[str, str] | None) -> dict[str, str]:
    """Attributes of a run, or those that a run must have."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidInput(f"attributes={given!r}: a mapping from names to texts, such as {{'tier': 'gold'}}")
    return {
        check_name(name, "the name of an attribute"): check_text(text, f"attributes[{name!r}]", most=LONGEST)
        for name, text in given.items()
    }


def _text(given: str | None, name: str) -> str:
    return "" if given is None else check_text(given, f"{name}=")
