"""Rows of streams."""

from __future__ import annotations

from holdfast.adapters.memory.transaction import Transaction
from holdfast.core.checksums import parts_checksum
from holdfast.ports.journal import Commit
from holdfast.ports.parts import (
    Appended,
    Appending,
    Closed,
    Elsewhere,
    Flush,
    StoredParts,
    StoredSpan,
)


def add_parts(transaction: Transaction, commit: Commit) -> None:
    """Appends the parts of the turn, and records the outcomes of attempts that sent parts."""
    tables = transaction.tables
    no, epoch = commit.no, commit.row.epoch
    for sent in commit.parts:
        rows = tables.streams.setdefault(no, {}).setdefault(sent.name, [])
        first, packed = rows[-1].end if rows else 0, sent.packed
        checksum = parts_checksum(commit.row.run, sent.name, "", sent.attempt, epoch, packed)
        rows.append(StoredParts(first, first + len(sent.values), "", sent.attempt, epoch, packed, checksum))
    for x in commit.spans:
        stored = StoredSpan(x.step, x.span.attempt, x.span.first, x.span.end, x.is_completed)
        tables.spans.setdefault(no, {}).setdefault(x.span.name, []).append(stored)


def append(write: Transaction, flush: Flush, refused: set[tuple[int, str]]) -> Appending:
    run = write.tables.runs.get(flush.no)
    if run is None or run.epoch != flush.epoch or run.ended_at is not None:
        return Closed()
    rows = write.tables.streams.setdefault(flush.no, {}).setdefault(flush.name, [])
    end = rows[-1].end if rows else 0
    if end == flush.first and (flush.no, flush.name) not in refused:
        written = (flush.first, flush.end, flush.step, flush.attempt, flush.epoch, flush.packed, flush.checksum)
        rows.append(StoredParts(*written))
        return Appended()
    if any((x.first, x.epoch, x.checksum) == (flush.first, flush.epoch, flush.checksum) for x in rows):
        return Appended()
    refused.add((flush.no, flush.name))
    return Elsewhere(end)
