"""What the store keeps besides runs: blobs, snapshots, and their upkeep. Slow operations run off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import TypeVar

import apsw

from holdfast.adapters.sql.rows import encoded
from holdfast.adapters.sql.run_list import place, position
from holdfast.adapters.sqlite import upkeep
from holdfast.adapters.sqlite import upkeep_statements as sql
from holdfast.adapters.sqlite.access import Access
from holdfast.adapters.sqlite.blobs import held, keep_blobs, kind_of, known, read_blobs
from holdfast.adapters.sqlite.connections import fetch
from holdfast.adapters.sqlite.rewrite import Rewrite
from holdfast.core.instants import earlier, span_micros
from holdfast.core.snapshot import Snapshot
from holdfast.core.turn import Row, micros
from holdfast.ports.blobs import BlobData, BlobKind, Mark, Stub
from holdfast.ports.contents import Contents
from holdfast.ports.rewritten import Rewritten
from holdfast.ports.upkeep import Collected, Expired, Removed, Space

T = TypeVar("T")

_LARGE = 128 * 1024
_BEGINNING = (-1, 0)


class Keeping(Access):
    """The part of a SQLite store that keeps blobs and snapshots."""

    # -- snapshots -----------------------------------------------------------------------------------------------------

    async def snapshots(self, runs: Iterable[int]) -> Mapping[int, Snapshot]:
        """See `ports.journal`."""

        def ask(connection: apsw.Connection) -> Mapping[int, Snapshot]:
            found = {no: fetch(connection, sql.SNAPSHOT, (no,)) for no in runs}
            return {no: Snapshot(*rows[0]) for no, rows in found.items() if rows}

        return self._read(ask)

    async def put_snapshot(
        self, run: int, snapshot: Snapshot, blobs: Mapping[str, BlobData], references: Sequence[str]
    ) -> bool:
        """See `ports.journal`."""
        return await self._write(upkeep.PutSnapshot(run, snapshot, tuple(blobs.items()), references), is_large=True)

    async def drop_snapshots(self, runs: Iterable[int] | None = None) -> int:
        """See `ports.journal`."""
        return await self._write(lambda transaction: upkeep.drop_snapshots(transaction, runs), is_large=True)

    async def compact(self, run: int, stand_in: Row, references: Sequence[str]) -> int:
        """See `ports.journal`."""
        return await self._write(upkeep.Compact(run, stand_in, references), is_large=True)

    # -- blobs ---------------------------------------------------------------------------------------------------------

    async def put_blob(self, data: BlobData, *, kind: BlobKind = "payload") -> str:
        """See `ports.blobs`."""
        is_large = not isinstance(data, Stub) and len(data) > _LARGE
        if isinstance(data, Stub):
            name = data.name
        else:
            name = (await asyncio.to_thread(sha256, data) if is_large else sha256(data)).hexdigest()
        await self._write(lambda transaction: keep_blobs(transaction, ((name, data),), kind), is_large=is_large)
        return name

    async def get_blob(self, name: str) -> bytes:
        """See `ports.blobs`."""
        return (await self.get_blobs((name,)))[name]

    async def get_blobs(self, names: Iterable[str]) -> Mapping[str, bytes]:
        """See `ports.blobs`."""
        return self._read(lambda connection: read_blobs(connection, names))

    async def blob_kind(self, name: str) -> BlobKind | None:
        """See `ports.blobs`."""
        return self._read(lambda connection: kind_of(connection, name))

    async def known_blobs(self, names: Sequence[str]) -> AbstractSet[str]:
        """See `ports.blobs`."""
        return await asyncio.to_thread(self._read, lambda connection: known(connection, names))

    async def blob_references(self, names: Sequence[str]) -> Mapping[str, AbstractSet[str]]:
        """See `ports.blobs`."""
        return await asyncio.to_thread(self._read, lambda connection: held(connection, names))

    async def mark(self, of: Mark, new: int = 0) -> int:
        """See `ports.blobs`."""
        if new:
            await self._write(lambda transaction: transaction.run(sql.SET_MARK, (of, new)))
        rows = self._read(lambda connection: fetch(connection, sql.MARK, (of,)))
        return int(rows[0][0]) if rows else 0

    # -- upkeep --------------------------------------------------------------------------------------------------------

    async def take_duty(self, duty: str, *, holder: str, ttl: timedelta) -> bool:
        """See `ports.upkeep`."""
        return await self._write(lambda transaction: upkeep.take_duty(transaction, duty, holder, ttl))

    async def drop_duty(self, duty: str, *, holder: str) -> None:
        """See `ports.upkeep`."""
        await self._write(lambda transaction: transaction.run(sql.DROP_DUTY, (duty, holder)))

    async def expired(self, keep: timedelta | None, *, after: str = "", limit: int = 100) -> Expired:
        """See `ports.upkeep`."""
        begin = position(after) if after else _BEGINNING
        now, limit_of_age = micros(self._clock.now()), span_micros(keep)

        def ask(connection: apsw.Connection) -> Expired:
            rows = fetch(connection, sql.ENDED_ROOTS, (*begin, now, limit_of_age, limit + 1))
            look = partial(fetch, connection)
            found = [root for root, _, _ in rows[:limit] if upkeep.is_expired(look, root, now, limit_of_age)]
            return Expired(found, place(*rows[limit - 1][1:]) if len(rows) > limit else "")

        return await asyncio.to_thread(self._read, ask)

    async def remove(self, roots: Sequence[str], keep: timedelta | None, *, is_asked: bool = False) -> Removed:
        """See `ports.upkeep`."""
        trees = runs = rows = 0
        for root in roots:
            one = await self._write(upkeep.RemoveTree(root, span_micros(keep), is_asked), is_large=True)
            trees, runs, rows = trees + one.trees, runs + one.runs, rows + one.rows
        return Removed(trees, runs, rows)

    async def rewrite(self, rewritten: Rewritten) -> bool:
        """See `ports.upkeep`."""
        return await self._write(Rewrite(rewritten), is_large=True)

    async def collect(self, grace: timedelta, *, limit: int = 1000, is_dry: bool = False) -> Collected:
        """See `ports.upkeep`."""
        before = micros(earlier(self._clock.now(), grace))
        if is_dry:
            return await asyncio.to_thread(self._read, lambda connection: upkeep.collectable(connection, before))
        return await self._write(lambda transaction: upkeep.collect(transaction, before, limit), is_large=True)

    async def held_only_by(self, roots: Sequence[str]) -> Collected:
        """See `ports.upkeep`."""
        values = (encoded(roots),)
        [found] = await asyncio.to_thread(self._read, lambda connection: fetch(connection, sql.HELD_ONLY_BY, values))
        return Collected(*found)

    async def contents(self, run: int) -> Contents | None:
        """See `ports.upkeep`."""
        return await asyncio.to_thread(self._read, lambda connection: upkeep.contents(connection, run))

    async def space(self, *, largest: int = 10) -> Space:
        """See `ports.upkeep`."""
        return await asyncio.to_thread(self._read, lambda connection: upkeep.space(connection, largest))
