"""Questions that need more than one line: rows of several runs, pages, blobs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256

from holdfast.adapters.postgres import statements as sql
from holdfast.adapters.postgres.link import Link
from holdfast.adapters.sql import listing
from holdfast.core.turn import Row
from holdfast.errors import BlobNotFound, CorruptJournal
from holdfast.ports.inbox import Unconsumed
from holdfast.ports.runs import Filter, Page

LONG = 30.0
"""Seconds an answer is waited for that may be large, or come from many rows."""

_NAME = re.compile(r"[0-9a-f]{64}")


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
    parts, values = listing.conditions(
        which,
        with_root=sql.WITH_ROOT,
        with_attribute=sql.WITH_ATTRIBUTE,
        with_statuses=sql.WITH_STATUSES,
        statuses=[status.value for status in which.statuses],
    )
    if after:
        parts.append(listing.BEFORE)
        values += listing.position(after)
    text = "\n".join((*parts, listing.NEWEST_FIRST)).replace("?", "%b")
    rows = link.ask(f"{sql.LIST_RUNS}\n{text}", (*values, limit + 1), patience=LONG)
    return listing.page_of(rows, limit)


def blobs(link: Link, names: Sequence[str]) -> dict[str, bytes]:
    """The bytes of each name; every one must be there and be what it is named."""
    asked = [bytes.fromhex(name) for name in names if _NAME.fullmatch(name)]
    found = {name.hex(): data for name, data in link.ask(sql.BLOBS, (asked,), patience=LONG)} if asked else {}
    for name in names:
        if name not in found:
            raise BlobNotFound(f"no blob {name} in this store")
        if sha256(found[name]).hexdigest() != name:
            raise CorruptJournal(f"blob {name} does not hold the bytes of that name. Restore the store from a backup.")
    return {name: found[name] for name in names}
