"""Blobs: immutable bytes named by their SHA-256.

A blob lives while something refers to it. A writer of a row, message, value, snapshot or blob states what it refers to
(`references`; for a blob: `core.references.ReferringBytes`, or `Stub.names`), and the store keeps these references, as
far as the blobs exist, in the same transaction. The store never searches for references: what it stores may be
encrypted.

A reference goes with what made it. Those of a row go when compaction removes the row, those of a message when it loses
its body, those of a value when another is shown in its place, those of a snapshot when it is replaced or dropped, and
those of a blob with the blob; all that a run has go with the run. What nothing refers to is removed by
`Upkeep.collect`, after a grace that begins when it was last stored or lost a reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal, Protocol, TypeAlias

import msgspec

from holdfast.core.definition import DefinitionBytes
from holdfast.core.references import referred_by
from holdfast.errors import BlobNotFound

BlobKind: TypeAlias = Literal["payload", "definition", "user", "segment"]
"""What a blob is for: a large payload, a flow's definition, a step's own data, packed turns of a snapshot."""

Mark: TypeAlias = Literal["folder", "leases"]
"""What outside the store has a mark by which the store recognises it."""


class Stub(msgspec.Struct, frozen=True, gc=False):
    """A blob whose bytes are kept elsewhere (`ports.blob_home`): the store keeps its name, size and age, and what it
    refers to, but no bytes. Reading them from the store raises `BlobNotFound`, which says that they are elsewhere."""

    name: str
    size: int
    names: tuple[str, ...] = ()
    is_definition: bool = False


BlobData: TypeAlias = bytes | Stub


def kind_of(data: BlobData, brought_as: BlobKind) -> BlobKind:
    """The kind of bytes that a run, a turn, a message or a snapshot brings: a definition stays one."""
    is_definition = data.is_definition if isinstance(data, Stub) else isinstance(data, DefinitionBytes)
    return "definition" if is_definition else brought_as


def held_by(data: BlobData) -> tuple[str, ...]:
    """The references of a blob."""
    return data.names if isinstance(data, Stub) else referred_by(data)


def not_in_store(name: str, *, is_stub: bool) -> BlobNotFound:
    """The error of a store that has no bytes of that name."""
    if is_stub:
        return BlobNotFound(f"blob {name} is not in this store but in the home of its blobs, which is not used here")
    return BlobNotFound(f"no blob {name} in this store")


class Blobs(Protocol):
    """Content-addressed bytes."""

    async def put_blob(self, data: BlobData, *, kind: BlobKind = "payload") -> str:
        """Stores the bytes durably and returns their name; storing them again changes only their age. The kind is the
        one they were first stored with. (Blobs of a commit, a message or a new run are payloads, unless they are a
        `DefinitionBytes`; those of a snapshot segments.)"""
        ...

    async def get_blob(self, name: str) -> bytes:
        """The bytes of that name, with their hash verified. Raises `BlobNotFound`, or `CorruptJournal` if they were
        changed."""
        ...

    async def get_blobs(self, names: Iterable[str]) -> Mapping[str, bytes]:
        """Several at once; every name must exist."""
        ...

    async def blob_kind(self, name: str) -> BlobKind | None:
        """What the blob of that name is for; None if it does not exist."""
        ...

    async def known_blobs(self, names: Sequence[str]) -> AbstractSet[str]:
        """The names among these that have a blob, wherever its bytes are. One query."""
        ...

    async def blob_references(self, names: Sequence[str]) -> Mapping[str, AbstractSet[str]]:
        """The references of each of these blobs; blobs without references, or that do not exist, are left out."""
        ...

    async def mark(self, of: Mark, new: int = 0) -> int:
        """The mark by which the store recognises something outside; 0 if there is none. "folder": the home that holds
        the bytes of its blobs (`ports.blob_home`). "leases": the lease manager's prefix. A `new` one (64 bits, above 0)
        is stored if there was none, durably and forever: concurrent callers all get the same one.
        """
        ...
