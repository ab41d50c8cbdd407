"""A folder as a home for blobs. Its blocking calls run in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from holdfast.adapters.blobs.folder import Folder
from holdfast.errors import BlobNotFound, StoreRefused, StoreUnavailable
from holdfast.ports.blob_home import OldBlobs


class FolderHome:
    """A `ports.blob_home.BlobHome` in a folder that all workers share."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    @property
    def address(self) -> str:
        """See `ports.blob_home`."""
        return self.folder.path.as_uri()

    async def own(self, url: str) -> int:
        """See `ports.blob_home`."""
        return await asyncio.to_thread(self.folder.label, url)

    async def open(self, mark: int) -> None:
        """See `ports.blob_home`."""
        self.folder.mark = mark
        await asyncio.to_thread(self._open)

    def _open(self) -> None:
        try:
            self.folder.check()
        except StoreUnavailable as error:
            raise StoreRefused(f"cannot keep blobs in {self.folder.path}: {error}") from error
        self.folder.prepare()

    async def check(self) -> None:
        """See `ports.blob_home`."""
        await asyncio.to_thread(self.folder.check)

    async def put(self, blobs: Sequence[tuple[str, bytes]], at: datetime) -> None:
        """See `ports.blob_home`."""
        await asyncio.to_thread(self._put, blobs, at.timestamp())

    def _put(self, blobs: Sequence[tuple[str, bytes]], at: float) -> None:
        for name, data in blobs:
            self.folder.put(name, data, at)

    async def get(self, names: Collection[str]) -> Mapping[str, bytes]:
        """See `ports.blob_home`."""
        return await asyncio.to_thread(self._get, names)

    def _get(self, names: Collection[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for name in names:
            with suppress(BlobNotFound):
                found[name] = self.folder.get(name)
        return found

    async def remove(self, names: Collection[str], before: datetime) -> None:
        """See `ports.blob_home`."""
        await asyncio.to_thread(self.folder.remove, names, before.timestamp())

    async def old(self, after: str, before: datetime, limit: int) -> OldBlobs:
        """See `ports.blob_home`. The cursor is a part of the folder."""
        return await asyncio.to_thread(self._old, after, before.timestamp(), limit)

    def _old(self, after: str, before: float, limit: int) -> OldBlobs:
        names: list[str] = []
        for part in self.folder.parts(after):
            if len(names) >= limit:
                return OldBlobs(names, after)
            self.folder.sweep(part)
            names += self.folder.names(part, before)
            after = part
        return OldBlobs(names, "")

    async def warnings(self) -> Sequence[str]:
        """See `ports.blob_home`."""
        return ()

    async def close(self) -> None:
        """See `ports.blob_home`."""
