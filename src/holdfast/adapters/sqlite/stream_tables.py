"""The tables of streams, part of the migration that added them. This text never changes."""

from __future__ import annotations

STREAMS = """
-- Streams: one row for parts that were sent together, from one offset to before another. `step` is empty for what the
-- workflow's own code sent. Spans say what became of an attempt that sent parts: which lie between these offsets.
CREATE TABLE streams (
    run INTEGER NOT NULL REFERENCES runs (no),
    name TEXT NOT NULL,
    first_offset INTEGER NOT NULL,
    end_offset INTEGER NOT NULL,
    step TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    parts BLOB NOT NULL,
    checksum BLOB NOT NULL,
    PRIMARY KEY (run, name, first_offset)
) STRICT;
CREATE TABLE stream_spans (
    run INTEGER NOT NULL REFERENCES runs (no),
    name TEXT NOT NULL,
    end_offset INTEGER NOT NULL,
    first_offset INTEGER NOT NULL,
    step TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    is_completed INTEGER NOT NULL,
    PRIMARY KEY (run, name, end_offset, first_offset, step, attempt)
) STRICT, WITHOUT ROWID;
"""
