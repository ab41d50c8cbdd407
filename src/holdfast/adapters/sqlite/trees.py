"""The rows of a tree, in their total order."""

from __future__ import annotations

import apsw

from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite.connection import fetch
from holdfast.core.turn import Row

NEAR = 5_000
"""Rows of the whole store that are sooner looked through than the rows of one tree sorted."""


def rows_of(connection: apsw.Connection, *, root: str, from_seq: int, limit: int) -> list[Row]:
    """From `from_seq` on. SQLite has one writer, and seq rises with every row, so what is there is final.

    A reader who follows is near the end: the store's newest rows are passed over by seq. One who begins reads the runs
    of the tree, so that what others wrote since costs nothing.
    """
    ((newest,),) = fetch(connection, sql.NEWEST_SEQ)
    statement = sql.TREE_BY_SEQ if (newest or 0) - from_seq <= NEAR else sql.TREE_BY_RUN
    return [Row(*row) for row in fetch(connection, statement, (root, root, from_seq, limit))]
