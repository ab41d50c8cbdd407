"""A store whose blobs are files: what stores owe about blobs, and about what keeps them."""

from __future__ import annotations

from pathlib import Path

from holdfast.adapters.blobs.elsewhere import with_folder
from holdfast.adapters.blobs.folder import Folder
from holdfast.adapters.memory.store import MemoryStore
from holdfast.ports.store import Store
from holdfast.testing.conformance import BlobsSuite, SnapshotSuite, UpkeepSuite, VirtualClock


class TestFolder(BlobsSuite, UpkeepSuite, SnapshotSuite):
    async def open(self, clock: VirtualClock, folder: Path) -> Store:
        blobs = Folder(folder / "blobs")
        blobs.prepare()
        return with_folder(MemoryStore(clock), blobs)
