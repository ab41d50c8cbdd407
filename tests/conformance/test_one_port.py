"""A suite of one port, bound to a class that has that port and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from holdfast.adapters.memory.store import MemoryStore
from holdfast.ports.blobs import BlobData, BlobKind, Blobs, Mark
from holdfast.testing.conformance import BlobsSuite, VirtualClock


class OnlyBlobs:
    """Promise: these methods are all that `BlobsSuite` asks for."""

    def __init__(self, clock: VirtualClock) -> None:
        self._inner = MemoryStore(clock)

    async def put_blob(self, data: BlobData, *, kind: BlobKind = "payload") -> str:
        return await self._inner.put_blob(data, kind=kind)

    async def get_blob(self, name: str) -> bytes:
        return await self._inner.get_blob(name)

    async def get_blobs(self, names: Iterable[str]) -> Mapping[str, bytes]:
        return await self._inner.get_blobs(names)

    async def blob_kind(self, name: str) -> BlobKind | None:
        return await self._inner.blob_kind(name)

    async def known_blobs(self, names: Sequence[str]) -> AbstractSet[str]:
        return await self._inner.known_blobs(names)

    async def blob_references(self, names: Sequence[str]) -> Mapping[str, AbstractSet[str]]:
        return await self._inner.blob_references(names)

    async def mark(self, of: Mark, new: int = 0) -> int:
        return await self._inner.mark(of, new)


class TestOnlyBlobs(BlobsSuite):
    async def open(self, clock: VirtualClock, folder: Path) -> Blobs:
        return OnlyBlobs(clock)
