"""The condition of a store, for `doctor`. Only reads."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

import msgspec

from holdfast.ports.runs import RunRow


class Schema(msgspec.Struct, frozen=True, gc=False):
    """Which version of the schema a store has, and which this code needs."""

    version: int
    latest: int

    @property
    def pending(self) -> int:
        """The number of missing migrations."""
        return max(0, self.latest - self.version)


class Condition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The condition of a store. `durability`: what a crash or power cut can lose, in words. `faults` are reasons not to
    trust it, `warnings` what needs attention."""

    engine: str
    durability: str
    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class Backlog(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Runs of one definition and queue that wait for a worker: due and not held, or delayed because no worker
    had their code. `oldest` is the one that waits longest, since `since`."""

    workflow: str
    version: str
    queue: str
    count: int
    oldest: str
    since: datetime


@runtime_checkable
class Diagnosable(Protocol):
    """A store that can be examined."""

    async def condition(self) -> Condition:
        """The store's condition."""
        ...

    async def backlog(self) -> Sequence[Backlog]:
        """The runs that wait for a worker, by definition and queue, the longest wait first. May read every open run."""
        ...


@runtime_checkable
class FindsDamage(Protocol):
    """A store whose rows can be damaged from outside."""

    async def damaged(self, *, limit: int) -> Sequence[RunRow]:
        """Open runs whose row cannot be read in full, in the order of creation. Reads every open run."""
        ...
