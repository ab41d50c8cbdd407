"""A store: what one backend offers together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from holdfast.ports.blobs import Blobs
from holdfast.ports.clock import Clock
from holdfast.ports.inbox import Inbox
from holdfast.ports.journal import Journal
from holdfast.ports.leases import Leases
from holdfast.ports.limits import Limits
from holdfast.ports.overview import Overview
from holdfast.ports.parts import Streams
from holdfast.ports.queues import Queues
from holdfast.ports.runs import Runs
from holdfast.ports.schedules import Schedules
from holdfast.ports.transactions import Transactions
from holdfast.ports.updates import Answers
from holdfast.ports.upkeep import Upkeep

OTHERS = ""
"""Given to listeners instead of a run's id: another process may have written, and `changes` has grown."""


class Store(
    Journal,
    Runs,
    Schedules,
    Queues,
    Limits,
    Streams,
    Overview,
    Inbox,
    Answers,
    Leases,
    Blobs,
    Upkeep,
    Transactions,
    Protocol,
):
    """Everything durable, in one object."""

    @property
    def url(self) -> str:
        """The address it was opened with, without secrets."""
        ...

    @property
    def clock(self) -> Clock:
        """The clock for expiry, timers and deadlines."""
        ...

    def subscribe(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Calls `listener(run id)` after a write of this process made that run due, changed its inbox, answered an
        update of it or ended it; and `listener(OTHERS)` when another process wrote, if this kind of store notices that.
        A hint, from any thread, possibly lost; polling finds everything. Returns a function that unsubscribes.
        """
        ...

    def changes(self) -> int:
        """A number that grows when another process may have written. Cheap enough to read 20 times a second."""
        ...

    async def close(self) -> None:
        """Finishes all accepted work, and releases all resources."""
        ...
