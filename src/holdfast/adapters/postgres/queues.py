"""The queues of a PostgreSQL store. What writes is in `schema/0004_pre_queues.sql`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from holdfast.adapters.postgres.access import Access
from holdfast.adapters.postgres.link import Link
from holdfast.adapters.sql.rows import decoded_gate, encoded_gate, maybe_instant, queue_of
from holdfast.core.rate import allowance
from holdfast.core.turn import instant
from holdfast.ports.queues import QUEUES, QueueChange, QueueLoad, ShareLoad, StoredQueue

T = TypeVar("T")

QUEUE = "SELECT name, revision, body, gate::text FROM {s}.queues WHERE name = %b::text"
LISTED = "SELECT name, revision, body, gate::text FROM {s}.queues ORDER BY name"
# ensure queue: its row, so that a change of it locks one that is there. Locks nothing that is there.
ENSURE = "INSERT INTO {s}.queues (name) VALUES (%b::text) ON CONFLICT DO NOTHING RETURNING name"
CHANGE = "SELECT {s}.change_queue(%b::text, %b::bigint, %b::boolean, %b::text::jsonb, %b::bytea)"
LOAD = """
SELECT waiting, oldest, since, begun, parked, moment, until, gate, share_count, names, waits, places
FROM {s}.queue_load(%b::bigint, %b::text, %b::integer)
"""


class Queued(Access):
    """The part of a PostgreSQL store that keeps queues."""

    async def queue(self, name: str) -> StoredQueue | None:
        """See `ports.queues`."""
        rows = await self._run(lambda link: link.ask(QUEUE, (name,)))
        return queue_of(rows[0]) if rows else None

    async def queues(self) -> Sequence[StoredQueue]:
        """See `ports.queues`."""
        return [queue_of(row) for row in await self._run(lambda link: link.ask(LISTED))]

    async def change_queue(self, change: QueueChange) -> bool:
        """See `ports.queues`."""
        gate = encoded_gate(change.gate).decode()
        values = (change.name, change.revision, change.gate.is_shut, gate, change.body)

        def ask(link: Link) -> bool:
            link.ask(ENSURE, (change.name,))
            ((is_changed,),) = link.ask(CHANGE, values, bears_repeating=False)
            return bool(is_changed)

        is_changed = await self._run(ask)
        self._tell((QUEUES,) if is_changed else ())
        return is_changed

    async def queue_load(self, name: str, *, shares: int = 20) -> QueueLoad:
        """See `ports.queues`."""
        ((*found,),) = await self._run(lambda link: link.ask(LOAD, (self._moments.wall(), name, shares)))
        waiting, oldest, since, begun, parked, moment, until, gate, share_count, *load = found
        rules = decoded_gate((gate or "{}").encode())
        allowed = allowance(rules.interval, rules.burst, until, moment) if rules.interval else None
        return QueueLoad(
            waiting=waiting,
            oldest=oldest or "",
            since=maybe_instant(since),
            begun=begun,
            parked=parked,
            next_at=instant(allowed.next_at) if allowed is not None and not allowed.count else None,
            shares=_shares(*load),
            share_count=share_count,
        )


def _shares(names: Any, waits: Any, places: Any) -> tuple[ShareLoad, ...]:
    return tuple(ShareLoad(*each) for each in zip(names or (), waits or (), places or (), strict=True))
