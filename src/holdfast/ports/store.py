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
"""Instead of a run's id: another process may have written, and `changes` has risen."""


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
    """Everything durable, behind one door."""

    @property
    def url(self) -> str:
        """The address it was opened with, without secrets."""
        ...

    @property
    def clock(self) -> Clock:
        """The clock by which expiry, timers and deadlines are judged."""
        ...

    def subscribe(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Calls `listener(run id)` after a write of this process made that run due, changed its inbox, answered an
        update of it or ended it; and
        `listener(OTHERS)` when it hears that another process wrote, if its kind of store can hear such a thing.

        A hint, from any thread, possibly lost; the poll is the truth. Returns how to unsubscribe.
        """
        ...

    def changes(self) -> int:
        """A number that rises when another process may have written. Cheap enough to ask 20 times a second."""
        ...

    async def close(self) -> None:
        """Finishes what was accepted, and lets go of everything."""
        ...
