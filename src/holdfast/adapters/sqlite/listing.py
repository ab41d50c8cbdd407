"""Listing runs: a statement put together from constant conditions, newest first, with a cursor for the next page."""

from __future__ import annotations

import base64
from typing import Any

import apsw

from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite.connection import fetch
from holdfast.adapters.sqlite.rows import encoded, run_row
from holdfast.core.turn import instant, micros
from holdfast.errors import InvalidInput
from holdfast.ports.runs import Filter, Page, RunRow


def page(connection: apsw.Connection, which: Filter, after: str, limit: int) -> Page:
    """The runs after the cursor that the filter lets through."""
    parts, values = conditions(which)
    if after:
        parts.append(sql.BEFORE)
        values += position(after)
    statement = "\n".join((sql.LIST_RUNS, *parts, sql.NEWEST_FIRST))
    rows = fetch(connection, statement, (*values, limit + 1))
    runs = [run_row(row) for row in rows[:limit]]
    return Page(runs, cursor(runs[-1]) if runs and len(rows) > limit else "")


def conditions(which: Filter) -> tuple[list[str], list[Any]]:
    """The conditions of a filter and their values."""
    parts: list[str] = []
    values: list[Any] = []
    for is_wanted, part, value in (
        (which.workflow, sql.WITH_WORKFLOW, (which.workflow,)),
        (which.version is not None, sql.WITH_VERSION, (which.version,)),
        (len(which.statuses) == 1, sql.WITH_STATUS, which.statuses),
        (len(which.statuses) > 1, sql.WITH_STATUSES, (encoded(which.statuses),)),
        (which.queue, sql.WITH_QUEUE, (which.queue,)),
        (which.parent, sql.WITH_PARENT, (which.parent,)),
        (which.root, sql.WITH_ROOT, (which.root, which.root)),
        (which.key, sql.WITH_KEY, (which.key,)),
        (which.worker, sql.WITH_WORKER, (which.worker,)),
        (which.worker and _is_open(which), sql.WITH_OPEN_ONLY, ()),
    ):
        if is_wanted:
            parts.append(part)
            values += value
    for name, text in which.attributes.items():
        parts.append(sql.WITH_ATTRIBUTE)
        values += (name, text)
    return parts, values


def _is_open(which: Filter) -> bool:
    """Whether it asks for runs that have not ended only: then the index of a worker's own runs serves it."""
    return bool(which.statuses) and not any(status.is_terminal for status in which.statuses)


def cursor(run: RunRow) -> str:
    """Names the place after the run."""
    return place(micros(run.created_at), run.no)


def place(created_at: int, no: int) -> str:
    """Names the place after the run of that time and number."""
    return base64.urlsafe_b64encode(b"%d:%d" % (created_at, no)).decode()


def position(text: str) -> tuple[int, int]:
    """The place a cursor names."""
    try:
        at, no = base64.b64decode(text, altchars=b"-_", validate=True).split(b":")
        return micros(instant(int(at))), int(no)
    except (ValueError, OverflowError):
        raise InvalidInput(f"{text!r} is no cursor of this store; pass on the `next` of a page as it is") from None
