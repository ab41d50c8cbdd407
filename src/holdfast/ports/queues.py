"""Queues: their rules, and the gate at which runs wait until they may begin.

A run waits at the gate if its queue has rules (`core.gate.Gate.is_shut`) or the run names a share, unless it rides on
its parent's place (`NewRun.rides`). Such a run is never made already begun. It has the share it names, or else its
workflow. The gate lets it in by a claim, in the claim's own transaction: see `core.gate` for the order. From then on it
has a place until it ends, and is claimed like any other: it never waits at the gate again. A run that is given back
before its first turn gives its place back too. Messages do not let a run in, but a cancel or a pause is delivered at
once: the claim for it is counted and never refused.

Places are counted from the runs that have one, whichever worker holds them. All runs that were begun when a queue got
its first rules count, and those that waited wait at the gate from then on; its children stay as they are. A queue
without rules costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from holdfast.core.gate import OPEN, Gate

QUEUES = "\x00queues"
"""Instead of a run's id, to listeners: the rules of a queue were changed. No run has such an id."""


class StoredQueue(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A queue in its row. `body` is an encoded `core.queue.QueueState`, of which the store reads only the gate.
    `revision` grows by one with each change; 0: no rules were ever written."""

    name: str
    revision: int
    body: bytes
    gate: Gate


class QueueChange(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """New rules of a queue. Fenced by `revision`: applies only if the queue has that revision; 0: if it has no row."""

    name: str
    revision: int
    body: bytes
    gate: Gate = OPEN


class ShareLoad(msgspec.Struct, frozen=True, gc=False):
    """One share of a queue: how many runs wait, and how many have a place."""

    share: str
    waiting: int
    begun: int


class QueueLoad(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The contents of a queue, as far as its gate knows them: runs that wait there, with the one that waits longest;
    runs that have a place, and those of them that no worker holds and that are not due (`parked`); when its rate lets
    the next run in (None: at once); the shares with most runs waiting, and how many shares have any."""

    waiting: int = 0
    oldest: str = ""
    since: datetime | None = None
    begun: int = 0
    parked: int = 0
    next_at: datetime | None = None
    shares: tuple[ShareLoad, ...] = ()
    share_count: int = 0


class Queues(Protocol):
    """The queues of a store."""

    async def queue(self, name: str) -> StoredQueue | None:
        """The queue of that name; None if nothing was ever written about it."""
        ...

    async def queues(self) -> Sequence[StoredQueue]:
        """The queues with a row, by name."""
        ...

    async def change_queue(self, change: QueueChange) -> bool:
        """Writes the rules. Returns False, having written nothing, if another process was faster. With its first rules
        the queue gets its gate: see the module. Listeners are told."""
        ...

    async def queue_load(self, name: str, *, shares: int = 20) -> QueueLoad:
        """The contents of the queue. Counts every run that waits at its gate or has a place; locks nothing."""
        ...
