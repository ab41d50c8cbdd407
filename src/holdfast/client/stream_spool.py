"""Streams out of a store, and into another, beside the journals of their runs (`client.exports`).

Each row of a stream says under which epoch it was written, and only the holder of that epoch may write it. So an import
appends the rows of an epoch while it holds the run with it: before it takes the run again, and before its last row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from holdfast.core.exported import ExportedParts
from holdfast.errors import CorruptJournal
from holdfast.ports.parts import Appended, Flush, unpack
from holdfast.ports.store import Store

PAGE = 200


async def read_streams(store: Store, runs: Sequence[str]) -> list[ExportedParts]:
    """The rows of every stream of these runs."""
    found: list[ExportedParts] = []
    for run in runs:
        for name in await store.streams_of(run):
            after = -1
            while (page := await store.read_parts(run, name, after=after, limit=PAGE)) is not None and page.rows:
                found += [
                    ExportedParts(run, name, row.first, row.step, row.attempt, row.epoch, msgspec.Raw(row.packed))
                    for row in page.rows
                ]
                after = page.rows[-1].end - 1
    return found


class Spool:
    """Rows of streams that wait for their epoch."""

    def __init__(self, store: Store, rows: Sequence[ExportedParts]) -> None:
        self._store = store
        self._rows: dict[str, list[ExportedParts]] = defaultdict(list)
        for row in rows:
            self._rows[row.run].append(row)

    async def append(self, no: int, run: str, epoch: int) -> None:
        """Appends the rows that the holder of that epoch wrote. What a later holder wrote, who left no row of the
        journal, never belongs to a completed attempt, and is left out."""
        chosen = [row for row in self._rows[run] if row.epoch == epoch]
        self._rows[run] = [row for row in self._rows[run] if row.epoch != epoch]
        for row in chosen:
            packed = bytes(row.parts)
            flush = Flush(
                no=no,
                run=run,
                epoch=epoch,
                name=row.name,
                first=row.first,
                step=row.step,
                attempt=row.attempt,
                packed=packed,
                count=len(unpack(packed)),
            )
            if not isinstance((await self._store.append([flush]))[0], Appended):
                raise CorruptJournal(
                    f"run {run}: part {row.first} of stream {row.name!r} does not follow the one before it in the "
                    "exported file, so it was not imported. Export the run again."
                )
