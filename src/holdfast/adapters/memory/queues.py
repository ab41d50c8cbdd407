"""The queues of a memory store: their rules, and which runs their gates admit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from holdfast.adapters.memory.access import Access
from holdfast.adapters.memory.gate import begun_of, is_parked, stand, waiting_at
from holdfast.adapters.memory.tables import Line, Standing, Tables
from holdfast.adapters.memory.transaction import Transaction
from holdfast.core.gate import OPEN
from holdfast.core.rate import allowance
from holdfast.core.turn import instant, micros
from holdfast.ports.queues import QUEUES, QueueChange, QueueLoad, ShareLoad, StoredQueue


class Queued(Access):
    """The part of a memory store that keeps queues."""

    async def queue(self, name: str) -> StoredQueue | None:
        """See `ports.queues`."""
        with self._lock:
            return self._tables.queues.get(name) or self._unwritten(name)

    async def queues(self) -> Sequence[StoredQueue]:
        """See `ports.queues`."""
        with self._lock:
            names = sorted({*self._tables.queues, *self._tables.lines})
            return [self._tables.queues.get(name) or self._unwritten(name) for name in names]  # type: ignore[misc]

    async def change_queue(self, change: QueueChange) -> bool:
        """See `ports.queues`."""
        with self._writing() as write:
            known = self._tables.queues.get(change.name)
            if change.revision != (0 if known is None else known.revision):
                return False
            was_shut = known is not None and known.gate.is_shut
            self._tables.queues[change.name] = StoredQueue(
                name=change.name, revision=change.revision + 1, body=change.body, gate=change.gate
            )
            self._tables.lines.setdefault(change.name, Line())
            if change.gate.is_shut and not was_shut:
                _put_gate(self._tables, write, change.name)
            write.hints[QUEUES] = None
            return True

    async def queue_load(self, name: str, *, shares: int = 20) -> QueueLoad:
        """See `ports.queues`."""
        now = self._clock.now()
        with self._lock:
            waiting, begun = waiting_at(self._tables, name, now), begun_of(self._tables, name)
            stored, in_line = self._tables.queues.get(name), self._tables.lines.get(name, Line())
            standings = self._tables.standings
            waits = Counter(standings[run.no].share for run in waiting)
            places = Counter(standings[run.no].share for run in begun)
        oldest = min(waiting, key=lambda run: (run.available_at, run.no), default=None)
        gate = OPEN if stored is None else stored.gate
        allowed = allowance(gate.interval, gate.burst, in_line.until, micros(now)) if gate.interval else None
        ranked = sorted(waits, key=lambda share: (-waits[share], share))[:shares]
        return QueueLoad(
            waiting=len(waiting),
            oldest="" if oldest is None else oldest.id,
            since=None if oldest is None else oldest.available_at,
            begun=len(begun),
            parked=sum(is_parked(run, now) for run in begun),
            next_at=instant(allowed.next_at) if allowed is not None and not allowed.count else None,
            shares=tuple(ShareLoad(share, waits[share], places[share]) for share in ranked),
            share_count=len(waits),
        )

    def _unwritten(self, name: str) -> StoredQueue | None:
        return StoredQueue(name=name, revision=0, body=b"", gate=OPEN) if name in self._tables.lines else None


def _put_gate(tables: Tables, write: Transaction, queue: str) -> None:
    """Gives the queue its first rules. Runs that have begun get a place; the others wait."""
    for run in list(tables.runs.values()):
        if run.queue == queue and run.ended_at is None and not run.parent and run.no not in tables.standings:
            has_begun = run.started_at is not None or run.instance
            stand(tables, run, Standing(run.workflow, "begun" if has_begun else "waits"), write.now)
