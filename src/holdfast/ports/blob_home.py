"""A home for blobs: a place outside the store that holds their bytes, such as a folder or a bucket.

The store keeps a stub of each blob and decides in its own transactions what refers to it and when it may go
(`ports.blobs`). The home only holds bytes under names. Home and store cannot agree at every moment, so the order is
fixed: bytes are in the home before the store hears of them, and the store forgets them before they leave the home.

Times are those of the store's clock, whatever the clocks of hosts and servers say. A home belongs to one store and has
a mark by which the store recognises it (`Blobs.mark`), so an unmounted path or a wrong bucket is noticed before
anything is written or reported as lost.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

import msgspec


class OldBlobs(msgspec.Struct, frozen=True, gc=False):
    """Names of blobs that were stored before some time, and the cursor of the next page ("" at the end)."""

    names: Sequence[str]
    next: str


class BlobHome(Protocol):
    """Bytes by their SHA-256. A name that is not one is never read or written (`BlobNotFound`).

    A home that cannot be reached, or is not the one with the mark, raises `StoreUnavailable`. Every verb may be
    repeated.
    """

    @property
    def address(self) -> str:
        """Its address for people, without secrets."""
        ...

    async def own(self, url: str) -> int:
        """The mark of the home, which belongs to the store of that address; created if it has none. Concurrent
        processes get the same mark. Raises `StoreRefused` if the home cannot be used, or belongs to another store."""
        ...

    async def open(self, mark: int) -> None:
        """Expects this mark from now on. Raises `StoreRefused` if the home does not have it; then nothing is
        written."""
        ...

    async def check(self) -> None:
        """Raises `StoreUnavailable` unless the home at the address has the mark."""
        ...

    async def put(self, blobs: Sequence[tuple[str, bytes]], at: datetime) -> None:
        """Stores the bytes durably under their names. Existing blobs count as stored at `at`: they stay until `remove`
        is called with a later time."""
        ...

    async def get(self, names: Collection[str]) -> Mapping[str, bytes]:
        """The bytes of those names that are here, verified. Raises `CorruptJournal` if bytes were changed."""
        ...

    async def remove(self, names: Collection[str], before: datetime) -> None:
        """Removes these blobs, unless they were stored at `before` or later. Safe against a concurrent `put`."""
        ...

    async def old(self, after: str, before: datetime, limit: int) -> OldBlobs:
        """About `limit` names of blobs that were stored before that time, from the cursor on. Also cleans up what
        crashes left."""
        ...

    async def warnings(self) -> Sequence[str]:
        """What needs attention, in sentences, for `holdfast doctor`."""
        ...

    async def close(self) -> None:
        """Releases all resources."""
        ...
