"""Upkeep: what keeps a store from growing forever. Runs never wait for it; every verb may be repeated and
interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol, runtime_checkable

import msgspec

from holdfast.ports.contents import Contents


class Expired(msgspec.Struct, frozen=True, gc=False):
    """Roots of trees that retention may remove, oldest first, and the cursor of the next page ("" at the end)."""

    roots: list[str]
    next: str


class Removed(msgspec.Struct, frozen=True, gc=False):
    """What retention removed: trees, the runs in them, and their journal rows."""

    trees: int = 0
    runs: int = 0
    rows: int = 0


class Collected(msgspec.Struct, frozen=True, gc=False):
    """Blobs that were removed, or would be, their bytes, and the names of those removed."""

    blobs: int = 0
    bytes: int = 0
    names: tuple[str, ...] = ()


class Part(msgspec.Struct, frozen=True, gc=False):
    """The size of one table, or of one kind of blob: bytes of content, without indexes and free pages."""

    name: str
    rows: int
    bytes: int


class LargeRun(msgspec.Struct, frozen=True, gc=False):
    """A run and its journal: stored rows, and the bytes of their bodies."""

    id: str
    workflow: str
    status: str
    rows: int
    bytes: int


class Space(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What uses the space. `total`: the size of the store on disk; `free`: the part of it that is reused first."""

    total: int
    free: int
    tables: tuple[Part, ...]
    blobs: tuple[Part, ...]
    largest: tuple[LargeRun, ...]


class Upkeep(Protocol):
    """Retention, garbage collection, the report of space."""

    async def take_duty(self, duty: str, *, holder: str, ttl: timedelta) -> bool:
        """Whether the holder now has the duty; no other gets it before `ttl` is over or it is dropped. Asking again
        prolongs it. It expires like a lease: by the store's clock and, where leases end with the boot of their host,
        with the boot.
        """
        ...

    async def drop_duty(self, duty: str, *, holder: str) -> None:
        """Releases the duty, if this holder has it."""
        ...

    async def expired(self, keep: timedelta | None, *, after: str = "", limit: int = 100) -> Expired:
        """Roots whose whole tree (the root and all its descendants, at any depth) has ended, the last run at least as
        long ago as the root's retention (`Started.keep`), or else `keep` (None: forever). Oldest first, by creation of
        the root. A page may be empty and still have a next one. Only reads.
        """
        ...

    async def remove(self, roots: Sequence[str], keep: timedelta | None, *, is_asked: bool = False) -> Removed:
        """Removes these trees: rows of runs, journals, inboxes, exposed values, attributes, streams, snapshots and
        references to blobs, each tree in one transaction.

        Each is judged again inside its transaction by the rule of `expired`; one that does not qualify is
        left whole. `is_asked`: a client asks for it, so it suffices that the whole tree has ended, however short a time
        ago and whatever it says of keeping. A seq is never used twice, also if the newest row of the store's journal
        goes. A blob that loses a reference begins its grace.

        Afterwards the ids are free: the same id starts a new run, and a message to it finds no run.
        """
        ...

    async def collect(self, grace: timedelta, *, limit: int = 1000, is_dry: bool = False) -> Collected:
        """Removes up to `limit` blobs that nothing refers to (see `ports.blobs`) and that were stored, or lost a
        reference, longer ago than the grace. `is_dry`: only counts, all of them.

        Never removes a blob that a transaction committed before or after refers to: one that is referred to while this
        runs stays, or was stored again by the writer that refers to it.
        """
        ...

    async def held_only_by(self, roots: Sequence[str]) -> Collected:
        """Blobs to which only runs of these trees refer: their grace begins when the trees are removed. Only reads;
        returns no names."""
        ...

    async def contents(self, run: int) -> Contents | None:
        """What is kept of a run besides its row and its journal, as it is stored and at one moment; None: no such run.
        Only reads, and judges nothing."""
        ...

    async def space(self, *, largest: int = 10) -> Space:
        """What uses the space. Only reads, and may take as long as reading the whole store."""
        ...


@runtime_checkable
class KeepsFiles(Protocol):
    """A store whose blobs have files beside it, some of which a crash may leave unknown to the store."""

    async def collect_files(self, grace: timedelta, *, after: str = "", limit: int = 1000) -> str:
        """Checks about `limit` files older than the grace, from the cursor `after` on, and removes those that the store
        does not know. Returns the next cursor ("" at the end)."""
        ...
