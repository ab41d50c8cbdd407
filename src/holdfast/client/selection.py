"""Filters of runs, checked before a store sees them.

Values that only some stores would refuse (half a surrogate pair, a NUL), and values that are not texts, are refused
here, for all stores alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal, TypeAlias, get_args

import msgspec

from holdfast.core.attributes import checked_attributes
from holdfast.core.durations import Duration
from holdfast.core.hints import did_you_mean
from holdfast.core.ids import check_text
from holdfast.core.instants import instant_before
from holdfast.core.status import Status, parse_status
from holdfast.errors import InvalidInput
from holdfast.ports.runs import Filter

Statuses: TypeAlias = str | Status | Iterable[str | Status]
"""One status or several."""

Order: TypeAlias = Literal["-created", "created"]
"""`-created`: newest first. `created`: oldest first."""

TEXTS = ("workflow", "version", "queue", "parent", "root", "key", "worker", "prefix")
ATTRIBUTE = "attribute."
WRITTEN = ("status", *TEXTS, "since", "until", f"{ATTRIBUTE}NAME")
"""The names that a textual filter may use."""


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The filter and order of `runs` and `count`. None matches every run."""

    workflow: str | None = None
    version: str | None = None
    status: Statuses | None = None
    queue: str | None = None
    parent: str | None = None
    root: str | None = None
    key: str | None = None
    attributes: Mapping[str, str] | None = None
    since: Duration | datetime | None = None
    until: Duration | datetime | None = None
    order: Order = "-created"

    def filter(self, now: datetime) -> Filter:
        """The filter for a store. Raises `InvalidInput` for wrong values."""
        since, until = period(now, self.since, self.until)
        return Filter(
            workflow=_text(self.workflow, "workflow"),
            version=None if self.version is None else check_text(self.version, "version="),
            statuses=statuses_of(self.status),
            queue=_text(self.queue, "queue"),
            parent=_text(self.parent, "parent"),
            root=_text(self.root, "root"),
            key=_text(self.key, "key"),
            attributes=checked_attributes(self.attributes),
            since=since,
            until=until,
            is_oldest_first=is_oldest_first(self.order),
        )


def statuses_of(given: Statuses | None) -> tuple[Status, ...]:
    """The given statuses: one, or an iterable of them."""
    if given is None:
        return ()
    words = (given,) if isinstance(given, str) else given
    if not isinstance(words, Iterable) or isinstance(words, Mapping):
        raise InvalidInput(f"status={given!r}: give a status such as 'running', or a list of them")
    return tuple(dict.fromkeys(parse_status(check_text(word, "status=")) for word in words))


def is_oldest_first(order: Order) -> bool:
    """Whether that order begins with the oldest."""
    if order not in get_args(Order):
        raise InvalidInput(f"order={order!r}: use '-created' (newest first) or 'created' (oldest first)")
    return order == "created"


def period(
    now: datetime, since: Duration | datetime | None, until: Duration | datetime | None
) -> tuple[datetime | None, datetime | None]:
    """When a run was created: from the first instant on, and before the second."""
    return (
        None if since is None else instant_before(now, since, "since"),
        None if until is None else instant_before(now, until, "until"),
    )


def filter_of_words(pairs: Sequence[tuple[str, str]], now: datetime) -> Filter:
    """The filter of `name=value` pairs: `status=failed,paused`, `since=2h`, `attribute.tier=gold`."""
    texts: dict[str, str] = {}
    attributes: dict[str, str] = {}
    for name, value in pairs:
        known = attributes if name.startswith(ATTRIBUTE) else texts
        label = name.removeprefix(ATTRIBUTE)
        if known is texts and name not in WRITTEN:
            hint = did_you_mean(name, list(WRITTEN)) or f" Names: {', '.join(WRITTEN)}."
            raise InvalidInput(f"filter {name}={value}: there is no {name!r} to filter by.{hint}")
        if label in known:
            raise InvalidInput(f"filter {name!r} is given twice")
        known[label] = value
    return filter_of_texts(texts, attributes, now)


def filter_of_texts(texts: Mapping[str, str], attributes: Mapping[str, str], now: datetime) -> Filter:
    """The filter of texts by name; empty ones match everything, except an empty version."""
    since, until = period(now, texts.get("since") or None, texts.get("until") or None)
    words = [word.strip() for word in texts.get("status", "").split(",") if word.strip()]
    return Filter(
        workflow=texts.get("workflow", ""),
        version=texts.get("version"),
        statuses=statuses_of(words),
        queue=texts.get("queue", ""),
        parent=texts.get("parent", ""),
        root=texts.get("root", ""),
        key=texts.get("key", ""),
        worker=texts.get("worker", ""),
        attributes=dict(attributes),
        since=since,
        until=until,
        prefix=texts.get("prefix", ""),
    )


def _text(given: str | None, name: str) -> str:
    return "" if given is None else check_text(given, f"{name}=")
