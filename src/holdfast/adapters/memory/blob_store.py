"""What the memory store keeps besides runs: its lock and listeners, blobs, snapshots, and their upkeep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import timedelta
from hashlib import sha256

from holdfast.adapters.memory import upkeep
from holdfast.adapters.memory.access import Access
from holdfast.adapters.memory.blobs import keep_blobs
from holdfast.adapters.memory.rewrite import rewrite
from holdfast.adapters.memory.run_list import cursor, position
from holdfast.adapters.memory.tables import Blob, Duty
from holdfast.core.snapshot import Snapshot
from holdfast.core.turn import Row
from holdfast.errors import CorruptJournal
from holdfast.ports.blobs import BlobData, BlobKind, Mark, Stub, not_in_store
from holdfast.ports.contents import Contents
from holdfast.ports.rewritten import Rewritten
from holdfast.ports.upkeep import Collected, Expired, Removed, Space

__all__ = ["Keeping"]


class Keeping(Access):
    """The part of a memory store that keeps blobs and snapshots."""

    # -- snapshots -----------------------------------------------------------------------------------------------------

    async def snapshots(self, runs: Iterable[int]) -> Mapping[int, Snapshot]:
        """See `ports.journal`."""
        with self._lock:
            return {no: self._tables.snapshots[no] for no in runs if no in self._tables.snapshots}

    async def put_snapshot(
        self, run: int, snapshot: Snapshot, blobs: Mapping[str, BlobData], references: Sequence[str]
    ) -> bool:
        """See `ports.journal`."""
        with self._writing() as write:
            return upkeep.put_snapshot(write, run, snapshot, blobs.items(), references)

    async def drop_snapshots(self, runs: Iterable[int] | None = None) -> int:
        """See `ports.journal`."""
        with self._writing() as write:
            return upkeep.drop_snapshots(write, runs)

    async def compact(self, run: int, stand_in: Row, references: Sequence[str]) -> int:
        """See `ports.journal`."""
        with self._writing() as write:
            return upkeep.compact(write, run, stand_in, references)

    # -- blobs ---------------------------------------------------------------------------------------------------------

    async def put_blob(self, data: BlobData, *, kind: BlobKind = "payload") -> str:
        """See `ports.blobs`."""
        name = data.name if isinstance(data, Stub) else sha256(data).hexdigest()
        with self._writing() as write:
            keep_blobs(write, [(name, data)], kind)
        return name

    async def get_blob(self, name: str) -> bytes:
        """See `ports.blobs`."""
        return (await self.get_blobs([name]))[name]

    async def get_blobs(self, names: Iterable[str]) -> Mapping[str, bytes]:
        """See `ports.blobs`."""
        with self._lock:
            found = {name: self._tables.blobs.get(name) for name in names}
        return {name: _verified(name, blob) for name, blob in found.items()}

    async def blob_kind(self, name: str) -> BlobKind | None:
        """See `ports.blobs`."""
        with self._lock:
            blob = self._tables.blobs.get(name)
            return blob.kind if blob else None

    async def known_blobs(self, names: Sequence[str]) -> AbstractSet[str]:
        """See `ports.blobs`."""
        with self._lock:
            return self._tables.blobs.keys() & set(names)

    async def blob_references(self, names: Sequence[str]) -> Mapping[str, AbstractSet[str]]:
        """See `ports.blobs`."""
        with self._lock:
            found = {name: self._tables.blobs.get(name) for name in names}
            return {name: blob.names for name, blob in found.items() if blob is not None and blob.names}

    async def mark(self, of: Mark, new: int = 0) -> int:
        """See `ports.blobs`."""
        with self._lock:
            if new:
                self._tables.marks.setdefault(of, new)
            return self._tables.marks.get(of, 0)

    # -- upkeep --------------------------------------------------------------------------------------------------------

    async def take_duty(self, duty: str, *, holder: str, ttl: timedelta) -> bool:
        """See `ports.upkeep`."""
        boot, second = self._clock.boot()
        with self._lock:
            known = self._tables.duties.get(duty)
            if known is not None and known.holder != holder and known.boot == boot and second < known.until:
                return False
            self._tables.duties[duty] = Duty(holder, boot, second + ttl.total_seconds())
            return True

    async def drop_duty(self, duty: str, *, holder: str) -> None:
        """See `ports.upkeep`."""
        with self._lock:
            known = self._tables.duties.get(duty)
            if known is not None and known.holder == holder:
                del self._tables.duties[duty]

    async def expired(self, keep: timedelta | None, *, after: str = "", limit: int = 100) -> Expired:
        """See `ports.upkeep`."""
        place = position(after) if after else None
        now = self._clock.now()
        with self._lock:
            seen, has_more = upkeep.roots(self._tables, place, limit)
            found = [root.id for root in seen if upkeep.tree_if_expired(self._tables, root, now, keep)]
        return Expired(found, cursor(seen[-1]) if has_more else "")

    async def remove(self, roots: Sequence[str], keep: timedelta | None, *, is_asked: bool = False) -> Removed:
        """See `ports.upkeep`."""
        removed = Removed()
        for name in roots:
            with self._writing() as write:
                root = self._tables.run(name)
                tree = upkeep.removable(self._tables, root, write.now, keep, is_asked=is_asked) if root else []
                if tree:
                    one = upkeep.remove_tree(write, tree)
                    removed = Removed(removed.trees + 1, removed.runs + one.runs, removed.rows + one.rows)
        return removed

    async def rewrite(self, rewritten: Rewritten) -> bool:
        """See `ports.upkeep`."""
        with self._writing() as write:
            return rewrite(write, rewritten)

    async def collect(self, grace: timedelta, *, limit: int = 1000, is_dry: bool = False) -> Collected:
        """See `ports.upkeep`."""
        with self._writing() as write:
            return upkeep.collect(write, grace, limit, is_dry=is_dry)

    async def held_only_by(self, roots: Sequence[str]) -> Collected:
        """See `ports.upkeep`."""
        with self._lock:
            return upkeep.held_only_by(self._tables, roots)

    async def contents(self, run: int) -> Contents | None:
        """See `ports.upkeep`."""
        with self._lock:
            return upkeep.contents(self._tables, run)

    async def space(self, *, largest: int = 10) -> Space:
        """See `ports.upkeep`."""
        with self._lock:
            return upkeep.space(self._tables, largest)


def _verified(name: str, blob: Blob | None) -> bytes:
    if blob is None or blob.data is None:
        raise not_in_store(name, is_stub=blob is not None)
    if sha256(blob.data).hexdigest() != name:
        raise CorruptJournal(f"blob {name} does not hold the bytes of that name")
    return blob.data
