"""Schedules: one row each. The first process to decide advances it; the others find that they were too late."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, TypeAlias

import msgspec

from holdfast.ports.inbox import Message
from holdfast.ports.runs import NewRun

SCHEDULES = "\x00schedules"
"""Given to listeners instead of a run's id: a schedule was created or changed by hand. No run has such an id."""


class StoredSchedule(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A schedule in its row. `body` is an encoded `core.schedule.ScheduleState`, which the store does not read.
    `revision` grows by one with each move. `next_at` is when there is something to decide; None: not by time."""

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
    """Whether listeners are told, so that a worker checks when it is due."""


class Moved(msgspec.Struct, frozen=True, gc=False):
    """Durable. `made` are the ids of the runs that did not exist before."""

    made: tuple[str, ...] = ()


class Outrun(msgspec.Struct, frozen=True, gc=False):
    """Another process was faster: the schedule has a different revision, and nothing was written."""


Moving: TypeAlias = Moved | Outrun


class DueSchedules(msgspec.Struct, frozen=True, gc=False):
    """Schedules to decide, those that wait longest first; the store's time; and when the next other one is due (None:
    none is)."""

    now: datetime
    schedules: list[StoredSchedule]
    next_at: datetime | None


class Schedules(Protocol):
    """The schedules of a store."""

    async def schedule(self, name: str) -> StoredSchedule | None:
        """The schedule of that name."""
        ...

    async def schedules(self, *, after: str = "", limit: int = 100) -> Sequence[StoredSchedule]:
        """The schedules after that name, by name."""
        ...

    async def due_schedules(self, *, limit: int = 100) -> DueSchedules:
        """The schedules that are due by the store's clock. Only reads, and only these rows."""
        ...

    async def move_schedule(self, move: Move) -> Moving:
        """Checks the fence, then writes the row, the runs and the messages, in one transaction. An existing run with
        one of the ids stays, and the rest of the move applies: the slot has its run. Messages to a run that has ended
        or is not there are dropped. Runs are made as `Runs.create` does, pending, and their listeners are told. Sent
        again after an unknown outcome it answers `Outrun`, and never writes twice.
        """
        ...
