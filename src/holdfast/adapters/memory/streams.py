"""The streams of a memory store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.adapters.memory.access import Access
from holdfast.adapters.memory.stream_rows import append
from holdfast.ports.parts import (
    STREAMS,
    Appended,
    Appending,
    Flush,
    StreamPage,
)


class Streaming(Access):
    """The part of a memory store that keeps streams."""

    async def append(self, batch: Sequence[Flush]) -> Sequence[Appending]:
        """See `ports.parts`."""
        refused: set[tuple[int, str]] = set()
        with self._writing() as write:
            answers = [append(write, flush, refused) for flush in batch]
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
