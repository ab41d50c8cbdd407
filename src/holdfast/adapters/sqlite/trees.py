"""The rows of a tree, in their total order."""

from __future__ import annotations

import apsw

from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite.connections import fetch
from holdfast.core.turn import Row

NEAR = 5_000
"""Up to this many rows of the whole store are scanned rather than sorting the rows of one tree."""


def rows_of(connection: apsw.Connection, *, root: str, from_seq: int, limit: int) -> list[Row]:
    """The rows from `from_seq` on. SQLite has one writer and seq grows with every row, so all rows are final. A reader
    that follows is near the end, and scans the store's newest rows by seq. A reader that begins reads the runs of the
    tree, so rows that other runs wrote cost nothing."""
    ((newest,),) = fetch(connection, sql.NEWEST_SEQ)
    statement = sql.TREE_BY_SEQ if (newest or 0) - from_seq <= NEAR else sql.TREE_BY_RUN
    return [Row(*row) for row in fetch(connection, statement, (root, root, from_seq, limit))]
