"""Queries that need more than one statement or row: rows of several runs, pages, trees."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.adapters.postgres import statements as sql
from holdfast.adapters.postgres.link import Link
from holdfast.adapters.sql import run_list
from holdfast.core.plurals import counted
from holdfast.core.turn import Row
from holdfast.ports.condition import Condition
from holdfast.ports.inbox import Unconsumed
from holdfast.ports.runs import Filter, Page, RunRow

LONG = 30.0
"""Seconds to wait for an answer that is large or reads many rows."""

SETTLING = 2.0
"""Seconds that a reader of a tree waits for open transactions."""


def rows_from(link: Link, runs: Mapping[int, int]) -> dict[int, list[Row]]:
    """The rows of several runs, in one answer."""
    found: dict[int, list[Row]] = {no: [] for no in runs}
    for no, run, *columns in link.ask(sql.READ_FROM, (list(runs), list(runs.values())), patience=LONG):
        found[no].append(Row(run, *columns))
    return found


def unread(link: Link, runs: Mapping[int, int]) -> dict[int, list[Unconsumed]]:
    """The messages of several runs, in one answer."""
    found: dict[int, list[Unconsumed]] = {no: [] for no in runs}
    for no, *columns in link.ask(sql.UNREAD, (list(runs), list(runs.values()))):
        found[no].append(Unconsumed(*columns))
    return found


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


def damaged(link: Link, limit: int) -> list[RunRow]:
    """The first open runs whose row cannot be read in full."""
    return run_list.damaged_of(lambda no: link.ask(sql.OPEN_RUNS, (no, run_list.PIECE), patience=LONG), limit)


def tree(link: Link, root: str, from_seq: int, limit: int) -> list[Row]:
    """The rows of a tree, as far as they are final. Rows that are not final are mostly so a moment later, so this waits
    for them, but not for ever: any open transaction in the database delays them."""
    deadline = time.monotonic() + SETTLING
    while True:
        rows = link.ask(sql.READ_TREE, (root, from_seq, limit), patience=LONG)
        final = [Row(*row[:-1]) for row in rows if row[-1]]
        if len(final) == len(rows) or time.monotonic() >= deadline:
            return final
        time.sleep(0.005)


def condition(link: Link) -> Condition:
    """The server's settings, and what a crash of the server can lose. A commit that the server does not keep is worth
    nothing."""
    ((version, fsync, synchronous),) = link.ask(sql.SERVER)
    faults: list[str] = []
    if fsync != "on":
        faults.append("fsync is off: a crash of the server's host can corrupt the store")
    if synchronous == "off":
        faults.append("synchronous_commit is off: a crash of the server can take the last commits")
    words = "limited: see the faults" if faults else f"full: synchronous_commit is {synchronous}"
    return Condition(
        engine=f"PostgreSQL {version}", durability=words, faults=tuple(faults), warnings=tuple(_contention(link))
    )


def _contention(link: Link) -> Iterator[str]:
    """Writes that wait for each other, or for a session that left its transaction open."""
    ((count, seconds, blocker, known),) = link.ask(sql.WAITING)
    if count:
        sessions = counted(count, "session")
        waits = "waits" if count == 1 else "wait"
        by = f", blocked by process {blocker} ({known.strip(', ')})" if blocker else ""
        yield (
            f"{sessions} of this database {waits} for a lock, the longest for {seconds:.0f} s{by}. If that one left a "
            "transaction open, end it: SELECT pg_terminate_backend(pid)"
        )
