"""Blobs: immutable bytes named by their SHA-256."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol


class Blobs(Protocol):
    """Content-addressed bytes."""

    async def put_blob(self, data: bytes) -> str:
        """Stores the bytes durably and returns their name; storing them again changes nothing."""
        ...

    async def get_blob(self, name: str) -> bytes:
        """The bytes of that name, their hash verified. `BlobNotFound`, or `CorruptJournal` if they were changed."""
        ...

    async def get_blobs(self, names: Iterable[str]) -> Mapping[str, bytes]:
        """Several at once; every name must be there."""
        ...
