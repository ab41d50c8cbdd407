"""Lists of runs: the conditions of a filter, and the position of a cursor. Values are bound in place of the `?`s."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.adapters.sql.rows import maybe_micros, place_columns, run_row
from holdfast.errors import InvalidInput
from holdfast.ports.runs import Filter, Page, RunRow

WITH_WORKFLOW = "AND workflow = ?"
WITH_VERSION = "AND version = ?"
WITH_STATUS = "AND status = ?"
WITH_QUEUE = "AND queue = ?"
WITH_PARENT = "AND parent = ? AND parent <> ''"
WITH_KEY = "AND key = ? AND key <> ''"
WITH_WORKER = "AND worker = ? AND worker <> ''"
WITH_SINCE = "AND created_at >= ?"
WITH_UNTIL = "AND created_at < ?"
WITH_OPEN_ONLY = "AND ended_at IS NULL"
BEFORE = "AND (created_at, no) < (?, ?)"
BEHIND = "AND (created_at, no) > (?, ?)"
NEWEST_FIRST = "ORDER BY created_at DESC, no DESC LIMIT ?"
OLDEST_FIRST = "ORDER BY created_at, no LIMIT ?"

LAST = "\U0010ffff"
"""A character after every other one: texts that begin with a prefix lie between the prefix and the prefix with this."""

PIECE = 1000
"""Rows read in one query."""

_WIDEST = 2**63  # what a column holds


def conditions(
    which: Filter,
    *,
    with_root: str,
    with_attribute: str,
    with_suspicion: str,
    with_prefix: str,
    with_statuses: str,
    with_ids: str,
    with_parents: str,
    array: Callable[[Sequence[str]], object],
) -> tuple[list[str], list[Any]]:
    """The conditions of a filter and their values. A dialect has its own statements for conditions on several rows."""
    parts: list[str] = []
    values: list[Any] = []
    statuses = array([status.value for status in which.statuses])
    for is_wanted, part, value in (
        (which.workflow, WITH_WORKFLOW, (which.workflow,)),
        (which.version is not None, WITH_VERSION, (which.version,)),
        (len(which.statuses) == 1, WITH_STATUS, tuple(status.value for status in which.statuses)),
        (len(which.statuses) > 1, with_statuses, (statuses,)),
        (which.queue, WITH_QUEUE, (which.queue,)),
        (which.parent, WITH_PARENT, (which.parent,)),
        (which.root, with_root, (which.root, which.root)),
        (which.key, WITH_KEY, (which.key,)),
        (which.worker, WITH_WORKER, (which.worker,)),
        (which.worker and _is_open(which), WITH_OPEN_ONLY, ()),
        (which.is_suspect, with_suspicion, ()),
        (which.since is not None, WITH_SINCE, (maybe_micros(which.since),)),
        (which.until is not None, WITH_UNTIL, (maybe_micros(which.until),)),
        (which.prefix, with_prefix, (which.prefix, which.prefix + LAST)),
        (which.ids, with_ids, (array(which.ids),)),
        (which.parents, with_parents, (array(which.parents),)),
    ):
        if is_wanted:
            parts.append(part)
            values += value
    for name, text in which.attributes.items():
        parts.append(with_attribute)
        values += (name, text)
    return parts, values


def _is_open(which: Filter) -> bool:
    """Whether the filter asks only for runs that have not ended: then the index of a worker's runs serves it."""
    return bool(which.statuses) and not any(status.is_terminal for status in which.statuses)


def in_order(which: Filter, after: str, parts: list[str], values: list[Any]) -> str:
    """Adds the condition of a cursor, and returns the end of the statement. The same indexes serve both orders."""
    if after:
        parts.append(BEHIND if which.is_oldest_first else BEFORE)
        values += position(after)
    return OLDEST_FIRST if which.is_oldest_first else NEWEST_FIRST


def page_of(rows: Sequence[Any], limit: int) -> Page:
    """The page in these rows, which may hold one more than the limit."""
    is_more = len(rows) > limit > 0
    return Page([run_row(row) for row in rows[:limit]], place(*place_columns(rows[limit - 1])) if is_more else "")


def damaged_of(ask: Callable[[int], Sequence[Any]], limit: int) -> list[RunRow]:
    """The first runs whose row cannot be read in full. `ask` returns the `PIECE` of open runs after a number."""
    found: list[RunRow] = []
    after = 0
    while len(found) < limit:
        rows = ask(after)
        found += [run for row in rows if (run := run_row(row)).damage]
        if len(rows) < PIECE:
            break
        after = rows[-1][0]
    return found[:limit]


def place(created_at: int, no: int) -> str:
    """The cursor that points behind the run of that time and number."""
    return base64.urlsafe_b64encode(b"%d:%d" % (created_at, no)).decode()


def position(text: str) -> tuple[int, int]:
    """The position that a cursor names."""
    try:
        at, no = base64.b64decode(text, altchars=b"-_", validate=True).split(b":")
        found = int(at), int(no)
    except ValueError:
        found = (_WIDEST, 0)
    if not all(-_WIDEST <= number < _WIDEST for number in found):
        raise InvalidInput(f"{text!r} is not a cursor of this store; pass the `next` of a page unchanged") from None
    return found
