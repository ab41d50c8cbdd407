"""What does not hold of the streams of a run: rows that were changed or are missing, and spans that its journal does
not tell. The journal says of every attempt which parts it sent; the parts themselves are only in their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from holdfast.core import events as e
from holdfast.core.checksums import parts_checksum
from holdfast.core.turn import Row, decode_row, is_compacted
from holdfast.ports.contents import Contents
from holdfast.ports.parts import StoredParts, StoredSpan, unpack
from holdfast.ports.store import Store

PAGE = 200
"""Rows of a stream that are looked at together."""


async def of_streams(store: Store, run: str, rows: Sequence[Row], contents: Contents) -> list[str]:
    """Every row of every stream, and the outcomes of the attempts that sent parts."""
    ends = await store.streams_of(run)
    problems: list[str] = []
    for name in ends:
        problems += await _of_rows(store, run, name)
    return [*problems, *_of_spans(rows, contents.spans, ends)]


async def _of_rows(store: Store, run: str, name: str) -> list[str]:
    problems: list[str] = []
    after = -1
    while True:
        page = await store.read_parts(run, name, after=after, limit=PAGE)
        if page is None or not page.rows:
            return problems
        for row in page.rows:
            problems += _of_row(run, name, row, after + 1)
            after = max(after, row.end - 1)
        if problems:
            return problems  # what follows a row whose place is wrong says nothing


def _of_row(run: str, name: str, row: StoredParts, place: int) -> Iterator[str]:
    where = f"stream {name!r}, parts {row.first} to {row.end - 1}"
    if row.checksum != parts_checksum(run, name, row.step, row.attempt, row.epoch, row.packed):
        yield f"{where}: they were changed or damaged"
    elif row.first != place:
        yield f"{where}: parts {place} to {row.first - 1} should come before them, and are not there"
    elif row.end - row.first != len(unpack(row.packed)):
        yield f"{where}: the row has {len(unpack(row.packed))} parts"


def _of_spans(rows: Sequence[Row], stored: Iterable[tuple[str, StoredSpan]], ends: Mapping[str, int]) -> Iterator[str]:
    """Compares the spans. A compacted journal does not know all of them, and an import may lack a stream."""
    told, known = set(_told(rows)), {(name, msgspec.structs.astuple(span)) for name, span in stored}
    if not is_compacted(rows[0]):
        for name, span in sorted(known - told):
            yield f"stream {name!r}: attempt {span[1]} of step {span[0]!r} sent no parts {span[2]} to {span[3] - 1}"
    for name, span in sorted(told - known):
        if name in ends:
            yield f"stream {name!r}: the outcome of attempt {span[1]} of step {span[0]!r} is missing"
    for name, span in sorted(told & known):
        if name in ends and span[3] > ends[name]:
            yield f"stream {name!r}: parts {ends[name]} to {span[3] - 1} are not there"


def _told(rows: Iterable[Row]) -> Iterator[tuple[str, tuple[str, int, int, int, bool]]]:
    for row in rows:
        for event in decode_row(row).events:
            if isinstance(event, e.StepCompleted | e.StepFailed | e.AttemptFailed):
                is_completed = isinstance(event, e.StepCompleted)
                for span in event.sent:
                    yield span.name, (event.key, span.attempt, span.first, span.end, is_completed)
