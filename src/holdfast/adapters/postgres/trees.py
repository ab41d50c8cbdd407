"""The rows of a tree, in their total order."""

from __future__ import annotations

import time

from holdfast.adapters.postgres import statements as sql
from holdfast.adapters.postgres.link import LONG, Link
from holdfast.core.turn import Row

SETTLING = 2.0
"""Seconds that a reader of a tree waits for open transactions."""


def rows_of(link: Link, root: str, from_seq: int, limit: int) -> list[Row]:
    """The rows of a tree, as far as they are final. Rows that are not final are mostly so a moment later, so this waits
    for them, but not forever: any open transaction in the database delays them."""
    deadline = time.monotonic() + SETTLING
    while True:
        rows = link.ask(sql.READ_TREE, (root, from_seq, limit), patience=LONG)
        final = [Row(*row[:-1]) for row in rows if row[-1]]
        if len(final) == len(rows) or time.monotonic() >= deadline:
            return final
        time.sleep(0.005)
