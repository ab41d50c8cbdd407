"""Lists of runs: a statement built from constant conditions, newest first, with a cursor for the next page."""

from __future__ import annotations

from typing import Any

import apsw

from holdfast.adapters.sql import run_list
from holdfast.adapters.sql.rows import encoded
from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite.connections import fetch
from holdfast.adapters.sqlite.suspect_statements import WITH_SUSPICION
from holdfast.ports.runs import Filter, Page


def page(connection: apsw.Connection, which: Filter, after: str, limit: int) -> Page:
    """The runs after the cursor that match the filter."""
    parts, values = conditions(which)
    ending = run_list.in_order(which, after, parts, values)
    statement = "\n".join((sql.LIST_RUNS, *parts, ending))
    return run_list.page_of(fetch(connection, statement, (*values, limit + 1)), limit)


def conditions(which: Filter) -> tuple[list[str], list[Any]]:
    """The conditions of a filter and their values."""
    return run_list.conditions(
        which,
        with_root=sql.WITH_ROOT,
        with_attribute=sql.WITH_ATTRIBUTE,
        with_suspicion=WITH_SUSPICION,
        with_prefix=sql.WITH_PREFIX,
        with_statuses=sql.WITH_STATUSES,
        with_ids=sql.WITH_IDS,
        with_parents=sql.WITH_PARENTS,
        array=encoded,
    )
