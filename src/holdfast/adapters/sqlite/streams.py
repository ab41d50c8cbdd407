"""The streams of a SQLite store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import apsw

from holdfast.adapters.sqlite.access import Access
from holdfast.adapters.sqlite.connections import fetch
from holdfast.adapters.sqlite.stream_rows import END, append_all
from holdfast.ports.parts import (
    Appending,
    Flush,
    StoredParts,
    StoredSpan,
    StreamPage,
)

T = TypeVar("T")

OF_RUN = "SELECT no, epoch, ended_at IS NOT NULL FROM runs WHERE id = ?"
# rows: from the one that holds offset ?3, or comes first after it.
ROWS = """
SELECT first_offset, end_offset, step, attempt, epoch, parts, checksum FROM streams
WHERE run = ?1 AND name = ?2 AND first_offset >= coalesce((
    SELECT max(first_offset) FROM streams WHERE run = ?1 AND name = ?2 AND first_offset <= ?3), 0) AND end_offset > ?3
ORDER BY first_offset LIMIT ?4
"""
SPANS = """
SELECT step, attempt, first_offset, end_offset, is_completed FROM stream_spans
WHERE run = ? AND name = ? AND end_offset > ? AND first_offset < ?
ORDER BY end_offset, first_offset, step, attempt
"""
# names: hops from name to name over the primary key, however many rows a stream has.
NAMES = """
WITH RECURSIVE known (name) AS (
    SELECT min(name) FROM streams WHERE run = ?1
    UNION ALL
    SELECT (SELECT min(s.name) FROM streams AS s WHERE s.run = ?1 AND s.name > known.name) FROM known
    WHERE known.name IS NOT NULL)
SELECT name FROM known WHERE name IS NOT NULL
"""


class Streaming(Access):
    """The part of a SQLite store that keeps streams."""

    async def append(self, batch: Sequence[Flush]) -> Sequence[Appending]:
        """See `ports.parts`."""
        return await self._write(lambda transaction: append_all(transaction, batch), is_large=True) if batch else []

    async def read_parts(self, run: str, name: str, *, after: int = -1, limit: int = 100) -> StreamPage | None:
        """See `ports.parts`."""

        def ask(connection: apsw.Connection) -> StreamPage | None:
            found = fetch(connection, OF_RUN, (run,))
            if not found:
                return None
            ((no, epoch, is_ended),) = found
            rows = [StoredParts(*row) for row in fetch(connection, ROWS, (no, name, after + 1, limit))]
            spans = fetch(connection, SPANS, (no, name, rows[0].first, rows[-1].end)) if rows else []
            return StreamPage(rows, [_span(*span) for span in spans], epoch, bool(is_ended))

        def at_one_moment(connection: apsw.Connection) -> StreamPage | None:
            found: list[StreamPage | None] = []
            with connection:
                found.append(ask(connection))
            return found[0]

        return self._read(at_one_moment)

    async def stream_ends(self, streams: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], int]:
        """See `ports.parts`."""

        def ask(connection: apsw.Connection) -> Mapping[tuple[str, str], int]:
            found: dict[tuple[str, str], int] = {}
            for run, name in streams:
                numbers = fetch(connection, OF_RUN, (run,))
                ends = fetch(connection, END, (numbers[0][0], name)) if numbers else []
                if ends:
                    found[run, name] = ends[0][0]
            return found

        return self._read(ask)

    async def streams_of(self, run: str) -> Mapping[str, int]:
        """See `ports.parts`."""

        def ask(connection: apsw.Connection) -> Mapping[str, int]:
            numbers = fetch(connection, OF_RUN, (run,))
            names = fetch(connection, NAMES, (numbers[0][0],)) if numbers else []
            return {name: fetch(connection, END, (numbers[0][0], name))[0][0] for (name,) in names}

        return self._read(ask)


def _span(step: str, attempt: int, first: int, end: int, is_completed: int) -> StoredSpan:
    return StoredSpan(step, attempt, first, end, bool(is_completed))
