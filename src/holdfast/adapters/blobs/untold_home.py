"""Stands for the home of a store's blobs in a process that was not told of it. It refuses every verb that needs the
home."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NoReturn

from holdfast.errors import StoreRefused
from holdfast.ports.blob_home import OldBlobs


class UntoldHome:
    """A `ports.blob_home.BlobHome` that this process cannot reach."""

    def __init__(self, url: str) -> None:
        self._url = url

    def _refuse(self) -> NoReturn:
        raise StoreRefused(
            f"{self._url} keeps its blobs (large payloads) in a folder or bucket, and this process was not told of it. "
            'Name it as the other processes do: App(blobs="file:///…" or "s3://…"), [store] blobs in holdfast.toml, '
            "HOLDFAST_STORE_BLOBS; or name the app to the command: MODULE:APP."
        )

    @property
    def address(self) -> str:
        """See `ports.blob_home`."""
        return "unknown here"

    async def own(self, url: str) -> int:
        self._refuse()

    async def open(self, mark: int) -> None:
        """Nothing to open: what needs no blobs works."""

    async def check(self) -> None:
        self._refuse()

    async def put(self, blobs: Sequence[tuple[str, bytes]], at: datetime) -> None:
        self._refuse()

    async def get(self, names: Collection[str]) -> Mapping[str, bytes]:
        """Refused: this process cannot tell whether they exist."""
        self._refuse()

    async def remove(self, names: Collection[str], before: datetime) -> None:
        self._refuse()

    async def old(self, after: str, before: datetime, limit: int) -> OldBlobs:
        self._refuse()

    async def warnings(self) -> Sequence[str]:
        """See `ports.blob_home`."""
        return ("blobs have a home outside the store, and this process was not told of it",)

    async def close(self) -> None:
        """See `ports.blob_home`."""
