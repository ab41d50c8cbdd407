"""The streams of a SQLite store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import apsw

from holdfast.adapters.sqlite.connection import fetch
from holdfast.adapters.sqlite.transaction import Operation, Transaction
from holdfast.core.checksums import parts_checksum
from holdfast.ports.journal import Commit
from holdfast.ports.parts import (
    STREAMS,
    Appended,
    Appending,
    Closed,
    Elsewhere,
    Flush,
    StoredParts,
    StoredSpan,
    StreamPage,
)

T = TypeVar("T")

# holder: whether the holder of that epoch may write to the streams of a run.
HOLDER = "SELECT 1 FROM runs WHERE no = ? AND epoch = ? AND ended_at IS NULL"
# end: one look at the end of the primary key.
END = "SELECT end_offset FROM streams WHERE run = ? AND name = ? ORDER BY first_offset DESC LIMIT 1"
ROW = "SELECT epoch, checksum FROM streams WHERE run = ? AND name = ? AND first_offset = ?"
# append: a row after the last one of its stream, which the one writer has just looked up. Locks streams.
APPEND = """
INSERT INTO streams (run, name, first_offset, end_offset, step, attempt, epoch, parts, checksum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
# settle: the outcome of an attempt, with its turn. Locks stream_spans.
SETTLE = """
INSERT INTO stream_spans (run, name, end_offset, first_offset, step, attempt, is_completed) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
"""

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


class Streaming(ABC):
    """The part of a SQLite store that keeps streams."""

    @abstractmethod
    def _write(self, operation: Operation[T], *, is_large: bool = False) -> Awaitable[T]: ...

    @abstractmethod
    def _read(self, ask: Callable[[apsw.Connection], T]) -> T: ...

    async def append(self, batch: Sequence[Flush]) -> Sequence[Appending]:
        """See `ports.parts`."""
        return await self._write(lambda transaction: _append_all(transaction, batch), is_large=True) if batch else []

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


def _append_all(transaction: Transaction, batch: Sequence[Flush]) -> list[Appending]:
    refused: set[tuple[int, str]] = set()
    answers = [_append(transaction, flush, refused) for flush in batch]
    if any(isinstance(answer, Appended) for answer in answers):
        transaction.hint(STREAMS)
    return answers


def _append(transaction: Transaction, flush: Flush, refused: set[tuple[int, str]]) -> Appending:
    no, name = flush.no, flush.name
    if transaction.row(HOLDER, (no, flush.epoch)) is None:
        return Closed()
    end = _end(transaction, no, name)
    if end == flush.first and (no, name) not in refused:
        facts = (flush.step, flush.attempt, flush.epoch, flush.packed, flush.checksum)
        transaction.run(APPEND, (no, name, flush.first, flush.end, *facts))
        return Appended()
    if transaction.row(ROW, (no, name, flush.first)) == (flush.epoch, flush.checksum):
        return Appended()
    refused.add((no, name))
    return Elsewhere(end)


def stream(transaction: Transaction, commit: Commit) -> None:
    """Writes what a turn brings to streams."""
    for sent in commit.parts:
        end = _end(transaction, commit.no, sent.name)
        packed = sent.packed
        checksum = parts_checksum(commit.row.run, sent.name, "", sent.attempt, commit.row.epoch, packed)
        facts: tuple[Any, ...] = ("", sent.attempt, commit.row.epoch, packed, checksum)
        transaction.run(APPEND, (commit.no, sent.name, end, end + len(sent.values), *facts))
    for settled in commit.spans:
        span = settled.span
        facts = (settled.step, span.attempt, settled.is_completed)
        transaction.run(SETTLE, (commit.no, span.name, span.end, span.first, *facts))
    transaction.hint(STREAMS)


def _end(transaction: Transaction, no: int, name: str) -> int:
    found = transaction.row(END, (no, name))
    return 0 if found is None else int(found[0])
