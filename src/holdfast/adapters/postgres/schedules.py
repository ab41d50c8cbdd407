"""The schedules of a PostgreSQL store. What writes is in `schema/0002_pre_schedules.sql`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from holdfast.adapters.postgres import wire
from holdfast.adapters.postgres.access import Access
from holdfast.adapters.sql.rows import maybe_instant, maybe_micros
from holdfast.core.turn import instant
from holdfast.ports.schedules import SCHEDULES, DueSchedules, Move, Moved, Moving, Outrun, StoredSchedule

T = TypeVar("T")

SCHEDULE = "SELECT name, revision, next_at, workflow, body FROM {s}.schedules WHERE name = %b::text"
LISTED = """
SELECT name, revision, next_at, workflow, body FROM {s}.schedules
WHERE name > %b::text COLLATE "C" ORDER BY name LIMIT %b::bigint
"""
DUE = "SELECT moment, name, revision, next_at, workflow, body FROM {s}.due_schedules(%b::bigint, %b::bigint)"
MOVE = """
SELECT is_moved, made, woken FROM {s}.move_schedule(
    %b::bigint, %b::text, %b::bigint, %b::bigint, %b::text, %b::bytea, %b::text::jsonb, %b::text::jsonb)
"""


class Scheduled(Access):
    """The part of a PostgreSQL store that keeps schedules."""

    async def schedule(self, name: str) -> StoredSchedule | None:
        """See `ports.schedules`."""
        rows = await self._run(lambda link: link.ask(SCHEDULE, (name,)))
        return _schedule(rows[0]) if rows else None

    async def schedules(self, *, after: str = "", limit: int = 100) -> Sequence[StoredSchedule]:
        """See `ports.schedules`."""
        return [_schedule(row) for row in await self._run(lambda link: link.ask(LISTED, (after, limit)))]

    async def due_schedules(self, *, limit: int = 100) -> DueSchedules:
        """See `ports.schedules`."""
        rows = await self._run(lambda link: link.ask(DUE, (self._moments.wall(), limit)))
        *due, (moment, _, _, next_at, _, _) = rows
        return DueSchedules(instant(moment), [_schedule(row[1:]) for row in due], maybe_instant(next_at))

    async def move_schedule(self, move: Move) -> Moving:
        """See `ports.schedules`."""
        news = [wire.new_run(new, since=0, instance="", worker="", first=None) for new in move.runs]
        messages = [wire.message(message) for message in move.messages]
        values = (
            self._moments.wall(),
            move.name,
            move.revision,
            maybe_micros(move.next_at),
            move.workflow,
            move.body,
            wire.encoded_json(news) if news else None,
            wire.encoded_json(messages) if messages else None,
        )
        ((is_moved, made, woken),) = await self._run(lambda link: link.ask(MOVE, values))
        if not is_moved:
            return Outrun()
        self._tell([*woken, SCHEDULES] if move.by_hand else woken)
        return Moved(tuple(made))


def _schedule(row: Any) -> StoredSchedule:
    name, revision, next_at, workflow, body = row
    return StoredSchedule(
        name=name, revision=revision, next_at=maybe_instant(next_at), workflow=workflow, body=bytes(body)
    )
