"""Homes of blobs, bound to their suite; and stores whose blobs are there, bound to what stores owe about blobs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.adapters.blobs.folder import Folder
from holdfast.adapters.blobs.folder_home import FolderHome
from holdfast.adapters.blobs.housed_store import with_home
from holdfast.adapters.memory.store import MemoryStore
from holdfast.adapters.s3 import S3Home, parse_s3_address
from holdfast.ports.blob_home import BlobHome
from holdfast.ports.store import Store
from holdfast.testing.conformance import BlobHomeSuite, BlobsSuite, SnapshotSuite, UpkeepSuite, VirtualClock
from tests.support import s3


class TestFolderHome(BlobHomeSuite):
    async def make(self, place: Path) -> BlobHome:
        return FolderHome(Folder(place))

    async def change(self, home: BlobHome, name: str, data: bytes) -> None:
        assert isinstance(home, FolderHome)
        (home.folder.path / name[:2] / name).write_bytes(data)

    async def count(self, home: BlobHome) -> int:
        assert isinstance(home, FolderHome)
        return len(list(home.folder.path.glob("*/*")))


@pytest.mark.today
class TestS3Home(BlobHomeSuite):
    @pytest.fixture(autouse=True)
    def addresses(self) -> None:
        self.prefixes: dict[str, str] = {}

    async def make(self, place: Path) -> BlobHome:
        address = self.prefixes.setdefault(place.name, await asyncio.to_thread(s3.new_prefix))
        return S3Home(parse_s3_address(address), s3.ENVIRONMENT)

    async def change(self, home: BlobHome, name: str, data: bytes) -> None:
        bucket = s3.objects_below(home.address)
        [[found]] = [page async for page in bucket.list(f"{name}/")]
        await bucket.put_async(found["path"], data)

    async def count(self, home: BlobHome) -> int:
        pages = [page async for page in s3.objects_below(home.address).list()]
        return sum("/" in found["path"] for page in pages for found in page)


class TestStoreWithFolder(BlobsSuite, UpkeepSuite, SnapshotSuite):
    async def open(self, clock: VirtualClock, folder: Path) -> Store:
        blobs = Folder(folder / "blobs")
        blobs.prepare()
        return with_home(MemoryStore(clock), FolderHome(blobs))


@pytest.mark.today
class TestStoreWithS3(BlobsSuite, UpkeepSuite, SnapshotSuite):
    async def open(self, clock: VirtualClock, folder: Path) -> Store:
        home = S3Home(parse_s3_address(await asyncio.to_thread(s3.new_prefix)), s3.ENVIRONMENT)
        return with_home(MemoryStore(clock), home)
