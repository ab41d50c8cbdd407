"""The streams of a PostgreSQL store. What writes is in `schema/0004_pre_streams.sql`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from holdfast.adapters.postgres.access import Access
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

_ROW, _SPAN = 1, 2

APPEND = """
SELECT codes, ends FROM {s}.append_parts(
    %b::bigint[], %b::bigint[], %b::text[], %b::bigint[], %b::bigint[], %b::text[], %b::bigint[], %b::bytea[],
    %b::bytea[])
"""
READ = """
SELECT kind, first_offset, end_offset, step, attempt, epoch, parts, checksum, is_true
FROM {s}.read_parts(%b::text, %b::text, %b::bigint, %b::bigint)
"""
# ends: one look at the end of the primary key for each stream. Locks nothing.
ENDS = """
SELECT asked.run, asked.name, last.end_offset
FROM unnest(%b::text[], %b::text[]) AS asked (run, name)
JOIN {s}.runs ON runs.id = asked.run
CROSS JOIN LATERAL (
    SELECT end_offset FROM {s}.streams WHERE streams.run = runs.no AND streams.name = asked.name
    ORDER BY first_offset DESC LIMIT 1) AS last
"""
# names: hops from name to name over the primary key, however many rows a stream has. Locks nothing.
NAMES = """
WITH RECURSIVE of_run AS (SELECT no FROM {s}.runs WHERE id = %b::text), known (name) AS (
    SELECT (SELECT min(name) FROM {s}.streams WHERE run = of_run.no) FROM of_run
    UNION ALL
    SELECT (SELECT min(s.name) FROM {s}.streams AS s WHERE s.run = of_run.no AND s.name > known.name)
    FROM known, of_run WHERE known.name IS NOT NULL)
SELECT known.name, last.end_offset FROM known CROSS JOIN of_run CROSS JOIN LATERAL (
    SELECT end_offset FROM {s}.streams WHERE streams.run = of_run.no AND streams.name = known.name
    ORDER BY first_offset DESC LIMIT 1) AS last
WHERE known.name IS NOT NULL
"""


class Streaming(Access):
    """The part of a PostgreSQL store that keeps streams."""

    async def append(self, batch: Sequence[Flush]) -> Sequence[Appending]:
        """See `ports.parts`."""
        if not batch:
            return []
        values = [list(column) for column in zip(*map(_columns, batch), strict=True)]
        ((codes, ends),) = await self._run(lambda link: link.ask(APPEND, values))
        answers = [_answer(code, end) for code, end in zip(codes, ends, strict=True)]
        if any(isinstance(answer, Appended) for answer in answers):
            self._tell((STREAMS,))
        return answers

    async def read_parts(self, run: str, name: str, *, after: int = -1, limit: int = 100) -> StreamPage | None:
        """See `ports.parts`."""
        found = await self._run(lambda link: link.ask(READ, (run, name, after + 1, limit)))
        if not found:
            return None
        (_, _, _, _, _, epoch, _, _, is_ended), *rest = found
        rows = [_row(*row[1:8]) for row in _of(rest, _ROW)]
        spans = [StoredSpan(row[3], row[4], row[1], row[2], row[8]) for row in _of(rest, _SPAN)]
        return StreamPage(rows, spans, epoch, is_ended)

    async def stream_ends(self, streams: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], int]:
        """See `ports.parts`."""
        values = ([run for run, _ in streams], [name for _, name in streams])
        rows = await self._run(lambda link: link.ask(ENDS, values))
        return {(run, name): end for run, name, end in rows}

    async def streams_of(self, run: str) -> Mapping[str, int]:
        """See `ports.parts`."""
        return dict(await self._run(lambda link: link.ask(NAMES, (run,))))


def brought(commit: Commit) -> dict[str, Any]:
    """What a turn brings to streams, as the function `_stream` takes it."""
    run, epoch = commit.row.run, commit.row.epoch
    parts = [
        (x.name, x.attempt, len(x.values), packed, parts_checksum(run, x.name, "", x.attempt, epoch, packed))
        for x in commit.parts
        for packed in (x.packed,)
    ]
    spans = [(x.span.name, x.span.end, x.span.first, x.step, x.span.attempt, x.is_completed) for x in commit.spans]
    return {"parts": parts, "spans": spans}


def _columns(flush: Flush) -> tuple[Any, ...]:
    place = (flush.no, flush.epoch, flush.name, flush.first, flush.count)
    return (*place, flush.step, flush.attempt, flush.packed, flush.checksum)


def _answer(code: int, end: int) -> Appending:
    return Appended() if code == 0 else Elsewhere(end) if code == 1 else Closed()


def _row(first: int, end: int, step: str, attempt: int, epoch: int, packed: Any, checksum: Any) -> StoredParts:
    return StoredParts(first, end, step, attempt, epoch, bytes(packed), bytes(checksum))


def _of(rows: Sequence[Any], kind: int) -> list[Any]:
    return [row for row in rows if row[0] == kind]
