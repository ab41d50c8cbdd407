"""What the store keeps besides runs: blobs, snapshots, and their upkeep."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import timedelta
from hashlib import sha256
from typing import TypeVar

import msgspec

from holdfast.adapters.postgres import upkeep_statements as sql
from holdfast.adapters.postgres import wire
from holdfast.adapters.postgres.access import Access
from holdfast.adapters.postgres.link import LONG, Link
from holdfast.adapters.sql.run_list import place, position
from holdfast.core.instants import earlier, span_micros
from holdfast.core.snapshot import Snapshot
from holdfast.core.turn import Row, micros, segments_of
from holdfast.errors import CorruptJournal
from holdfast.ports.blobs import BlobData, BlobKind, Mark, Stub, held_by, not_in_store
from holdfast.ports.contents import Contents, StoredMessage, StoredValue
from holdfast.ports.parts import StoredSpan
from holdfast.ports.rewritten import Rewritten
from holdfast.ports.updates import StoredAnswer
from holdfast.ports.upkeep import Collected, Expired, LargeRun, Part, Removed, Space

T = TypeVar("T")

_BEGINNING = (-1, 0)
_AT_ANY_AGE = -1
"""The default of `remove_tree`: any tree that has ended."""

_MICROSECOND = timedelta(microseconds=1)
_NAME = re.compile(r"[0-9a-f]{64}")


class Keeping(Access):
    """The part of a PostgreSQL store that keeps blobs and snapshots."""

    # -- snapshots -----------------------------------------------------------------------------------------------------

    async def snapshots(self, runs: Iterable[int]) -> Mapping[int, Snapshot]:
        """See `ports.journal`."""
        return {no: Snapshot(*columns) for no, *columns in await self._keep(sql.SNAPSHOTS, list(runs))}

    async def put_snapshot(
        self, run: int, snapshot: Snapshot, blobs: Mapping[str, BlobData], references: Sequence[str]
    ) -> bool:
        """See `ports.journal`."""
        ((was_taken,),) = await self._keep(
            sql.PUT_SNAPSHOT,
            self._moments.wall(),
            run,
            snapshot.ordinal,
            snapshot.checksum,
            snapshot.body,
            wire.encoded_json(wire.blobs(blobs.items())) if blobs else None,
            wire.encoded_json(references) if references else None,
        )
        return bool(was_taken)

    async def drop_snapshots(self, runs: Iterable[int] | None = None) -> int:
        """See `ports.journal`."""
        chosen = None if runs is None else list(runs)
        ((count,),) = await self._keep(sql.DROP_SNAPSHOTS, self._moments.wall(), chosen)
        return int(count)

    async def compact(self, run: int, stand_in: Row, references: Sequence[str]) -> int:
        """See `ports.journal`."""
        row = stand_in
        segments = [bytes.fromhex(name) for name in segments_of(row)]
        names = wire.encoded_json(references) if references else None
        values = (run, row.ordinal, row.epoch, row.at, row.checksum, row.format, row.body, segments, names)
        ((gone,),) = await self._keep(sql.COMPACT, self._moments.wall(), *values)
        return int(gone)

    # -- blobs ---------------------------------------------------------------------------------------------------------

    async def put_blob(self, data: BlobData, *, kind: BlobKind = "payload") -> str:
        """See `ports.blobs`."""

        def put(link: Link) -> str:
            if isinstance(data, Stub):
                name, size, stored = data.name, data.size, None
            else:
                name, size, stored = sha256(data).hexdigest(), len(data), bytes(data)
            names = [bytes.fromhex(one) for one in held_by(data)]
            values = (self._moments.wall(), bytes.fromhex(name), kind, size, stored, names)
            link.ask(sql.KEEP_BLOB, values, patience=LONG)
            return name

        return await self._run(put)

    async def get_blob(self, name: str) -> bytes:
        """See `ports.blobs`."""
        return (await self.get_blobs((name,)))[name]

    async def get_blobs(self, names: Iterable[str]) -> Mapping[str, bytes]:
        """See `ports.blobs`."""
        wanted = list(names)
        return await self._run(lambda link: _read_blobs(link, wanted))

    async def blob_kind(self, name: str) -> BlobKind | None:
        """See `ports.blobs`."""
        if not _NAME.fullmatch(name):
            return None
        rows = await self._keep(sql.KIND, bytes.fromhex(name))
        return rows[0][0] if rows else None

    async def known_blobs(self, names: Sequence[str]) -> AbstractSet[str]:
        """See `ports.blobs`."""
        asked = [bytes.fromhex(name) for name in names if _NAME.fullmatch(name)]
        return {name.hex() for (name,) in await self._keep(sql.KNOWN, asked)}

    async def blob_references(self, names: Sequence[str]) -> Mapping[str, AbstractSet[str]]:
        """See `ports.blobs`."""
        asked = [bytes.fromhex(name) for name in names if _NAME.fullmatch(name)]
        return {name.hex(): {one.hex() for one in held} for name, held in await self._keep(sql.HELD_BY_BLOBS, asked)}

    async def mark(self, of: Mark, new: int = 0) -> int:
        """See `ports.blobs`."""
        rows = await (self._keep(sql.SET_MARK, of, new) if new else self._keep(sql.MARK, of))
        return int(rows[0][0]) if rows else 0

    # -- upkeep --------------------------------------------------------------------------------------------------------

    async def take_duty(self, duty: str, *, holder: str, ttl: timedelta) -> bool:
        """See `ports.upkeep`."""
        ((is_ours,),) = await self._keep(sql.TAKE_DUTY, *self._moments.lease(), duty, holder, ttl // _MICROSECOND)
        return bool(is_ours)

    async def drop_duty(self, duty: str, *, holder: str) -> None:
        """See `ports.upkeep`."""
        await self._keep(sql.DROP_DUTY, duty, holder)

    async def expired(self, keep: timedelta | None, *, after: str = "", limit: int = 100) -> Expired:
        """See `ports.upkeep`."""
        begin = position(after) if after else _BEGINNING
        rows = await self._keep(sql.EXPIRED, self._moments.wall(), span_micros(keep), *begin, limit + 1)
        found = [root for root, _, _, is_expired in rows[:limit] if is_expired]
        return Expired(found, place(*rows[limit - 1][1:3]) if len(rows) > limit else "")

    async def remove(self, roots: Sequence[str], keep: timedelta | None, *, is_asked: bool = False) -> Removed:
        """See `ports.upkeep`."""
        trees = runs = rows = 0
        limit = _AT_ANY_AGE if is_asked else span_micros(keep)
        for root in roots:
            ((gone, of_journal),) = await self._keep(sql.REMOVE_TREE, self._moments.wall(), root, limit)
            trees, runs, rows = trees + bool(gone), runs + gone, rows + of_journal
        return Removed(trees, runs, rows)

    async def rewrite(self, rewritten: Rewritten) -> bool:
        """See `ports.upkeep`."""
        many = wire.encoded_json(wire.rewritten(rewritten))
        values = (rewritten.no, rewritten.after, rewritten.inbox_last, many)
        ((was_taken,),) = await self._keep(sql.REWRITE, self._moments.wall(), *values)
        return bool(was_taken)

    async def collect(self, grace: timedelta, *, limit: int = 1000, is_dry: bool = False) -> Collected:
        """See `ports.upkeep`."""
        before = micros(earlier(self._moments.clock.now(), grace))
        if is_dry:
            ((count, size),) = await self._keep(sql.COLLECTABLE, before)
            return Collected(count, size)
        gone = await self._keep(sql.COLLECT, self._moments.wall(), before, limit)
        return Collected(len(gone), sum(size for _, size in gone), tuple(name.hex() for name, _ in gone))

    async def held_only_by(self, roots: Sequence[str]) -> Collected:
        """See `ports.upkeep`."""
        [found] = await self._keep(sql.HELD_ONLY_BY, list(roots))
        return Collected(*found)

    async def contents(self, run: int) -> Contents | None:
        """See `ports.upkeep`."""
        rows = await self._keep(sql.CONTENTS, run)
        if not rows:
            return None
        keep, is_offered, is_adopted, *texts = rows[0]
        messages, shown, answers, spans, watches, adoptions, references, held = (
            msgspec.json.decode(text) for text in texts
        )
        is_odd = is_adopted is False and adoptions
        return Contents(
            keep=None if keep is None else keep * _MICROSECOND,
            is_offered=is_offered,
            messages=[
                StoredMessage(no, name, kind, b64decode(body), consumed, b64decode(written))
                for no, name, kind, body, consumed, written in messages
            ],
            shown=[StoredValue(name, b64decode(value), blob, b64decode(sums)) for name, value, blob, sums in shown],
            watches=[(topic, key, since) for topic, key, since in watches],
            adoptions=[(watcher, key, message) for watcher, key, message in adoptions],
            references=frozenset(references),
            held={holder: frozenset(names) for holder, names in held.items()},
            snapshot=(await self.snapshots([run])).get(run),
            answers=[
                StoredAnswer(name, b64decode(asked), outcome, b64decode(value), blob, b64decode(written))
                for name, asked, outcome, value, blob, written in answers
            ],
            spans=[(name, StoredSpan(*span)) for name, *span in spans],
            problems=("its row says that no run waits for its end, and one does (adoptions)",) if is_odd else (),
        )

    async def space(self, *, largest: int = 10) -> Space:
        """See `ports.upkeep`. PostgreSQL does not say how much space is free inside its tables."""
        ((total,),) = await self._keep(sql.TOTAL, self._address.schema)
        return Space(
            total=total,
            free=0,
            tables=tuple(Part(*row) for row in await self._keep(sql.TABLES)),
            blobs=tuple(Part(*row) for row in await self._keep(sql.KINDS)),
            largest=tuple(LargeRun(*row) for row in await self._keep(sql.LARGEST, largest)),
        )


def _read_blobs(link: Link, names: Sequence[str]) -> dict[str, bytes]:
    """The bytes of each name. Raises if one is missing or does not match its name."""
    asked = [bytes.fromhex(name) for name in names if _NAME.fullmatch(name)]
    found = {name.hex(): data for name, data in link.ask(sql.BLOBS, (asked,), patience=LONG)} if asked else {}
    for name in names:
        data = found.get(name)
        if data is None:
            raise not_in_store(name, is_stub=name in found)
        if sha256(data).hexdigest() != name:
            raise CorruptJournal(f"blob {name} does not hold the bytes of that name. Restore the store from a backup.")
    return {name: found[name] for name in names}
