"""The schedules of a memory store."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.adapters.memory.access import Access
from holdfast.adapters.memory.creation import insert_run
from holdfast.adapters.memory.messages import send
from holdfast.ports.schedules import SCHEDULES, DueSchedules, Move, Moved, Moving, Outrun, StoredSchedule


class Scheduled(Access):
    """The part of a memory store that keeps schedules."""

    async def schedule(self, name: str) -> StoredSchedule | None:
        """See `ports.schedules`."""
        with self._lock:
            return self._tables.schedules.get(name)

    async def schedules(self, *, after: str = "", limit: int = 100) -> Sequence[StoredSchedule]:
        """See `ports.schedules`."""
        with self._lock:
            names = sorted(name for name in self._tables.schedules if name > after)[:limit]
            return [self._tables.schedules[name] for name in names]

    async def due_schedules(self, *, limit: int = 100) -> DueSchedules:
        """See `ports.schedules`."""
        now = self._clock.now()
        with self._lock:
            planned = [(one.next_at, one) for one in self._tables.schedules.values() if one.next_at is not None]
        planned.sort(key=lambda pair: (pair[0], pair[1].name))
        due = [one for next_at, one in planned if next_at <= now][:limit]
        rest = planned[len(due) :]
        return DueSchedules(now, due, rest[0][0] if rest else None)

    async def move_schedule(self, move: Move) -> Moving:
        """See `ports.schedules`."""
        with self._writing() as write:
            known = self._tables.schedules.get(move.name)
            if move.revision != (0 if known is None else known.revision):
                return Outrun()
            if not move.body:
                self._tables.schedules.pop(move.name, None)
            else:
                self._tables.schedules[move.name] = StoredSchedule(
                    name=move.name,
                    revision=move.revision + 1,
                    next_at=move.next_at,
                    workflow=move.workflow,
                    body=move.body,
                )
            fresh = [new for new in move.runs if self._tables.run(new.row.run) is None]
            for new in fresh:
                insert_run(write, new)
            for message in move.messages:
                send(write, message)
            if move.by_hand:
                write.hints[SCHEDULES] = None
            return Moved(tuple(new.row.run for new in fresh))
