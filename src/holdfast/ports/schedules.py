"""Schedules: one row each. The first process to decide moves it on; the others find that they were outrun."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, TypeAlias

import msgspec

from holdfast.ports.inbox import Message
from holdfast.ports.runs import NewRun

SCHEDULES = "\x00schedules"
"""Instead of a run's id, to listeners: a schedule was made or changed by hand. No run has such an id."""


class StoredSchedule(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A schedule as its row says. `body` is an encoded `core.schedule.ScheduleState`, of which the store knows nothing.

    `revision` rises by one with each move. `next_at` is when there is something to decide; None: not by time.
    """

    name: str
    revision: int
    next_at: datetime | None
    workflow: str
    body: bytes


class Move(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A schedule moved on, and everything that becomes visible with it.

    Fenced by `revision`: it applies only if the schedule has that revision; 0: only if there is no such schedule.
    An empty body removes it.
    """

    name: str
    revision: int
    next_at: datetime | None = None
    workflow: str = ""
    body: bytes = b""
    runs: tuple[NewRun, ...] = ()
    messages: tuple[Message, ...] = ()
    by_hand: bool = False
    """Listeners are told, so that a worker looks when it is due."""


class Moved(msgspec.Struct, frozen=True, gc=False):
    """Durable. `made` are the ids of the runs that were not there before."""

    made: tuple[str, ...] = ()


class Outrun(msgspec.Struct, frozen=True, gc=False):
    """Another process was quicker: the schedule has a different revision, and nothing was written."""


Moving: TypeAlias = Moved | Outrun


class DueSchedules(msgspec.Struct, frozen=True, gc=False):
    """Schedules to decide, those that wait longest first; the store's time; and when the next one is due that is not
    among them (None: none is)."""

    now: datetime
    schedules: list[StoredSchedule]
    next_at: datetime | None


class Schedules(Protocol):
    """The schedules of a store."""

    async def schedule(self, name: str) -> StoredSchedule | None:
        """The schedule of that name."""
        ...

    async def schedules(self, *, after: str = "", limit: int = 100) -> Sequence[StoredSchedule]:
        """By name, those after `after`."""
        ...

    async def due_schedules(self, *, limit: int = 100) -> DueSchedules:
        """Those whose `next_at` has come by the store's clock. Only reads, and only these rows."""
        ...

    async def move_schedule(self, move: Move) -> Moving:
        """Fence, then the row, the runs and the messages, in one transaction.

        A run whose id is in use is left as it is, and so is the rest of the move: the slot has its run. Messages to a
        run that has ended or is not there are dropped. Runs are made as `Runs.create` does, pending, and their
        listeners are told. Sent again after an unknown outcome it answers `Outrun`, and never writes twice.
        """
        ...
