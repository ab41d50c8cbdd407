"""Where the stores of a cell are made, and what only their own kind of database can tell of them.

Workloads ask a place for addresses and for facts; they never open a database by themselves.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from benchmarks.raw import RawStore

STORES = ("sqlite", "postgresql")
YEAR = 365 * 24 * 3600
"""In seconds."""


class Place(Protocol):
    """Stores of one kind, each by a name, all gone with the place."""

    def url(self, name: str) -> str:
        """The address of a store. Opening it creates it."""
        ...

    def raw(self) -> RawStore:
        """Plain rows in the same kind of database: what it allows."""
        ...

    def lease_left(self, name: str, worker: str) -> float:
        """Seconds until the lease of a worker runs out, from its row."""
        ...

    def stored_bytes(self, name: str) -> int:
        """What a store takes on the disk, its log taken in."""
        ...

    def multiply(self, name: str, rows: int) -> None:
        """Copies the run `pattern`, without its journal, until there are that many more."""
        ...

    def crowd(self, name: str, schedules: int, keys: int) -> None:
        """Adds that many schedules that are due in a year, and that many keys of a limit, each with a place."""
        ...

    def counted(self) -> AbstractContextManager[Counts]:
        """A block in which stores are opened, and what is asked of them can be counted."""
        ...


class Counts(Protocol):
    """What is asked of all stores that were opened in a block."""

    def during(self) -> AbstractContextManager[dict[str, int]]:
        """Once the block has ended: write transactions, reads, and cheaper looks."""
        ...


def placed(store: str, folder: Path) -> AbstractContextManager[Place]:
    """A place for stores of that kind."""
    if store == "sqlite":
        from benchmarks.files import Files

        return Files(folder)
    from benchmarks.schemas import Schemas

    return Schemas()
