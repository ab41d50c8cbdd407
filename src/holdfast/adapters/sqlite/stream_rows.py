"""Rows of streams: what the writer does in a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.adapters.sqlite.transaction import Transaction
from holdfast.core.checksums import parts_checksum
from holdfast.ports.journal import Commit
from holdfast.ports.parts import (
    STREAMS,
    Appended,
    Appending,
    Closed,
    Elsewhere,
    Flush,
)

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


def append_all(transaction: Transaction, batch: Sequence[Flush]) -> list[Appending]:
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


def add_parts(transaction: Transaction, commit: Commit) -> None:
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
