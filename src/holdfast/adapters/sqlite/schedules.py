"""The schedules of a SQLite store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import apsw

from holdfast.adapters.sql.rows import maybe_instant, maybe_micros
from holdfast.adapters.sqlite.access import Access
from holdfast.adapters.sqlite.connections import fetch
from holdfast.adapters.sqlite.creation import insert_run
from holdfast.adapters.sqlite.messages import send
from holdfast.adapters.sqlite.transaction import Transaction
from holdfast.core.turn import instant, micros
from holdfast.ports.schedules import SCHEDULES, DueSchedules, Move, Moved, Moving, Outrun, StoredSchedule

T = TypeVar("T")

SCHEDULE = "SELECT name, revision, next_at, workflow, body FROM schedules WHERE name = ?"
LISTED = "SELECT name, revision, next_at, workflow, body FROM schedules WHERE name > ? ORDER BY name LIMIT ?"
DUE = """
SELECT name, revision, next_at, workflow, body FROM schedules WHERE next_at <= ? ORDER BY next_at, name LIMIT ?
"""
# next due: the first that is not among the due ones, which are as many as were asked for (then it may be one of them).
NEXT_DUE = "SELECT next_at FROM schedules WHERE next_at IS NOT NULL ORDER BY next_at, name LIMIT 1 OFFSET ?"
REVISION = "SELECT revision FROM schedules WHERE name = ?"
PUT = """
INSERT INTO schedules (name, revision, next_at, workflow, body) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (name) DO UPDATE SET revision = ?2, next_at = ?3, workflow = ?4, body = ?5
"""
REMOVE = "DELETE FROM schedules WHERE name = ?"


class Scheduled(Access):
    """The part of a SQLite store that keeps schedules."""

    async def schedule(self, name: str) -> StoredSchedule | None:
        """See `ports.schedules`."""
        rows = self._read(lambda connection: fetch(connection, SCHEDULE, (name,)))
        return _schedule(rows[0]) if rows else None

    async def schedules(self, *, after: str = "", limit: int = 100) -> Sequence[StoredSchedule]:
        """See `ports.schedules`."""
        return [_schedule(row) for row in self._read(lambda connection: fetch(connection, LISTED, (after, limit)))]

    async def due_schedules(self, *, limit: int = 100) -> DueSchedules:
        """See `ports.schedules`."""
        now = micros(self._clock.now())

        def ask(connection: apsw.Connection) -> DueSchedules:
            due = [_schedule(row) for row in fetch(connection, DUE, (now, limit))]
            following = fetch(connection, NEXT_DUE, (len(due),))
            return DueSchedules(instant(now), due, maybe_instant(following[0][0]) if following else None)

        return self._read(ask)

    async def move_schedule(self, move: Move) -> Moving:
        """See `ports.schedules`."""
        return await self._write(lambda transaction: _move(transaction, move), is_large=len(move.runs) > 1)


def _move(transaction: Transaction, move: Move) -> Moving:
    known = transaction.row(REVISION, (move.name,))
    if move.revision != (0 if known is None else known[0]):
        return Outrun()
    if move.body:
        values = (move.name, move.revision + 1, maybe_micros(move.next_at), move.workflow, move.body)
        transaction.run(PUT, values)
    else:
        transaction.run(REMOVE, (move.name,))
    made = [new.row.run for new in move.runs if insert_run(transaction, new) is not None]
    for message in move.messages:
        send(transaction, message)
    if move.by_hand:
        transaction.hint(SCHEDULES)
    return Moved(tuple(made))


def _schedule(row: Any) -> StoredSchedule:
    name, revision, next_at, workflow, body = row
    return StoredSchedule(
        name=name, revision=revision, next_at=maybe_instant(next_at), workflow=workflow, body=bytes(body)
    )
