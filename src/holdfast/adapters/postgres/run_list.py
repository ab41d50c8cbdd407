"""Lists of runs: a statement built from constant conditions, newest first, with a cursor for the next page."""

from __future__ import annotations

from typing import Any

from holdfast.adapters.postgres import statements as sql
from holdfast.adapters.postgres.link import LONG, Link
from holdfast.adapters.sql import run_list
from holdfast.ports.runs import Filter, Page


def page(link: Link, which: Filter, after: str, limit: int) -> Page:
    """The runs after the cursor that the filter lets through."""
    parts, values = conditions(which)
    ending = run_list.in_order(which, after, parts, values)
    text = "\n".join((*parts, ending)).replace("?", "%b")
    rows = link.ask(f"{sql.LIST_RUNS}\n{text}", (*values, limit + 1), patience=LONG)
    return run_list.page_of(rows, limit)


def conditions(which: Filter) -> tuple[list[str], list[Any]]:
    """The conditions of a filter and their values."""
    return run_list.conditions(
        which,
        with_root=sql.WITH_ROOT,
        with_attribute=sql.WITH_ATTRIBUTE,
        with_suspicion=sql.WITH_SUSPICION,
        with_prefix=sql.WITH_PREFIX,
        with_statuses=sql.WITH_STATUSES,
        with_ids=sql.WITH_IDS,
        with_parents=sql.WITH_PARENTS,
        array=list,
    )
