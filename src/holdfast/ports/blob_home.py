"""A home for blobs: a place outside the store that holds their bytes, such as a folder or a bucket.

The store keeps a stub of each blob and decides in its own transactions what refers to it and when it may go
(`ports.blobs`). The home only holds bytes under names. So two things never agree at every moment, and the home is built
for that: bytes are in the home before the store hears of them, and the store forgets them before they leave the home.

Times are those of the store's clock, whatever the clocks of hosts and servers say. A home belongs to one store and
bears a mark that the store knows it by (`Blobs.mark`), so a path that is not mounted, or another bucket, is
noticed before anything is written or counts as lost.
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
    """Bytes by their SHA-256. What cannot be such a name is never looked for and never written (`BlobNotFound`).

    A home that cannot be reached, or is not the one with the mark, raises `StoreUnavailable`. Every verb may be
    repeated.
    """

    @property
    def address(self) -> str:
        """Where it is, for people: without secrets."""
        ...

    async def own(self, url: str) -> int:
        """The mark of a home that belongs to the store of that address; made if it has none. Of several processes that
        come together, all get the same one. `StoreRefused` if it cannot be used, or belongs to another store."""
        ...

    async def open(self, mark: int) -> None:
        """Expects this mark from now on. `StoreRefused` if the home does not bear it; then nothing is written."""
        ...

    async def check(self) -> None:
        """`StoreUnavailable` unless what is at the address now bears the mark."""
        ...

    async def put(self, blobs: Sequence[tuple[str, bytes]], at: datetime) -> None:
        """Stores the bytes durably under their names. What is there already is as if it were stored at `at`: until
        `remove` is called with a later time, it stays."""
        ...

    async def get(self, names: Collection[str]) -> Mapping[str, bytes]:
        """The bytes of those names that are here, verified. `CorruptJournal` if what is here was changed."""
        ...

    async def remove(self, names: Collection[str], before: datetime) -> None:
        """Removes these blobs, unless they were stored at `before` or later; however `put` and `remove` meet."""
        ...

    async def old(self, after: str, before: datetime, limit: int) -> OldBlobs:
        """Some `limit` names of blobs that were stored before that time, from the cursor on. It may find a few more or
        fewer. On its way it clears what crashes left behind."""
        ...

    async def warnings(self) -> Sequence[str]:
        """What needs attention, in sentences, for `holdfast doctor`."""
        ...

    async def close(self) -> None:
        """Lets go of everything."""
        ...
