"""The streams of a memory store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from threading import Lock

from holdfast.adapters.memory.tables import Tables
from holdfast.adapters.memory.transaction import Transaction
from holdfast.ports.parts import (
    STREAMS,
    Appended,
    Appending,
    Closed,
    Elsewhere,
    Flush,
    StoredParts,
    StreamPage,
)


class Streaming(ABC):
    """The part of a memory store that keeps streams."""

    _lock: Lock
    _tables: Tables

    @abstractmethod
    def _writing(self) -> AbstractContextManager[Transaction]: ...

    async def append(self, batch: Sequence[Flush]) -> Sequence[Appending]:
        """See `ports.parts`."""
        refused: set[tuple[int, str]] = set()
        with self._writing() as write:
            answers = [_append(write, flush, refused) for flush in batch]
            if any(isinstance(answer, Appended) for answer in answers):
                write.hints[STREAMS] = None
            return answers

    async def read_parts(self, run: str, name: str, *, after: int = -1, limit: int = 100) -> StreamPage | None:
        """See `ports.parts`."""
        with self._lock:
            row = self._tables.run(run)
            if row is None:
                return None
            rows = [x for x in self._tables.streams.get(row.no, {}).get(name, []) if x.end > after + 1][:limit]
            spans = self._tables.spans.get(row.no, {}).get(name, []) if rows else []
            touching = [x for x in spans if x.end > rows[0].first and x.first < rows[-1].end]
            return StreamPage(rows, touching, row.epoch, row.ended_at is not None)

    async def stream_ends(self, streams: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], int]:
        """See `ports.parts`."""
        with self._lock:
            numbers = self._tables.numbers
            found = {key: self._tables.streams.get(numbers.get(key[0], 0), {}).get(key[1]) for key in streams}
            return {key: rows[-1].end for key, rows in found.items() if rows}

    async def streams_of(self, run: str) -> Mapping[str, int]:
        """See `ports.parts`."""
        with self._lock:
            found = self._tables.streams.get(self._tables.numbers.get(run, 0), {})
            return {name: rows[-1].end for name, rows in sorted(found.items())}


def _append(write: Transaction, flush: Flush, refused: set[tuple[int, str]]) -> Appending:
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
