"""The stream rows that a turn writes in a memory store."""

from __future__ import annotations

from holdfast.adapters.memory.tables import Tables
from holdfast.core.checksums import parts_checksum
from holdfast.ports.journal import Commit
from holdfast.ports.parts import StoredParts, StoredSpan


def add_parts(tables: Tables, commit: Commit) -> None:
    """Appends the parts of the turn, and records the outcomes of attempts that sent parts."""
    no, epoch = commit.no, commit.row.epoch
    for sent in commit.parts:
        rows = tables.streams.setdefault(no, {}).setdefault(sent.name, [])
        first, packed = rows[-1].end if rows else 0, sent.packed
        checksum = parts_checksum(commit.row.run, sent.name, "", sent.attempt, epoch, packed)
        rows.append(StoredParts(first, first + len(sent.values), "", sent.attempt, epoch, packed, checksum))
    for x in commit.spans:
        stored = StoredSpan(x.step, x.span.attempt, x.span.first, x.span.end, x.is_completed)
        tables.spans.setdefault(no, {}).setdefault(x.span.name, []).append(stored)
