"""The queues of a SQLite store: their rules, and what is in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import apsw

from holdfast.adapters.sql.rows import decoded_gate, encoded_gate, maybe_instant, queue_of
from holdfast.adapters.sqlite import queue_statements as sql
from holdfast.adapters.sqlite.access import Access
from holdfast.adapters.sqlite.connections import fetch
from holdfast.adapters.sqlite.transaction import Transaction
from holdfast.core.rate import allowance
from holdfast.core.turn import instant, micros
from holdfast.ports.queues import QUEUES, QueueChange, QueueLoad, ShareLoad, StoredQueue

T = TypeVar("T")


class Queued(Access):
    """The part of a SQLite store that keeps queues."""

    async def queue(self, name: str) -> StoredQueue | None:
        """See `ports.queues`."""
        rows = self._read(lambda connection: fetch(connection, sql.QUEUE, (name,)))
        return queue_of(rows[0]) if rows else None

    async def queues(self) -> Sequence[StoredQueue]:
        """See `ports.queues`."""
        return [queue_of(row) for row in self._read(lambda connection: fetch(connection, sql.QUEUES, ()))]

    async def change_queue(self, change: QueueChange) -> bool:
        """See `ports.queues`. Off the event loop: it may have to touch every open run of the queue."""
        return await self._write(lambda transaction: _change(transaction, change), is_large=True)

    async def queue_load(self, name: str, *, shares: int = 20) -> QueueLoad:
        """See `ports.queues`."""
        now = micros(self._clock.now())

        def ask(connection: apsw.Connection) -> QueueLoad:
            ((waiting, since, oldest),) = fetch(connection, sql.WAITING, (name,))
            ((begun,),) = fetch(connection, sql.BEGUN, (name,))
            ((awake,),) = fetch(connection, sql.AWAKE, (name, now))
            ((count,),) = fetch(connection, sql.COUNT_SHARES, (name,))
            found = fetch(connection, sql.GATE, (name,))
            gate = decoded_gate(found[0][0] if found else b"{}")
            allowed = allowance(gate.interval, gate.burst, found[0][2], now) if gate.interval else None
            return QueueLoad(
                waiting=waiting,
                oldest=oldest or "",
                since=maybe_instant(since),
                begun=begun,
                parked=begun - awake,
                next_at=instant(allowed.next_at) if allowed is not None and not allowed.count else None,
                shares=tuple(ShareLoad(*row) for row in fetch(connection, sql.WAITING_SHARES, (name, shares))),
                share_count=count,
            )

        return self._read(ask)


def _change(transaction: Transaction, change: QueueChange) -> bool:
    revision, was_gated = transaction.row(sql.REVISION, (change.name,)) or (0, 0)
    if change.revision != revision:
        return False
    is_gated = change.gate.is_shut
    values = (change.name, revision + 1, is_gated, encoded_gate(change.gate), change.body)
    transaction.run(sql.PUT_QUEUE, values)
    if is_gated and not was_gated:
        transaction.run(sql.PUT_GATE, (change.name,))
    transaction.hint(QUEUES)
    return True
