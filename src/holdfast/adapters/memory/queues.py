"""The queues of a memory store: their rules, and which runs their gates admit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from itertools import islice
from threading import Lock

import msgspec

from holdfast.adapters.memory.gate_places import stand
from holdfast.adapters.memory.tables import Line, Standing, Tables
from holdfast.adapters.memory.transaction import Transaction
from holdfast.core.gate import OPEN, Gate, Pick, line, room, times_after
from holdfast.core.rate import allowance, spent
from holdfast.core.status import Status
from holdfast.core.turn import instant, micros
from holdfast.ports.clock import Clock
from holdfast.ports.leases import ClaimRequest
from holdfast.ports.queues import QUEUES, QueueChange, QueueLoad, ShareLoad, StoredQueue
from holdfast.ports.runs import RunRow

_OPEN = {Status.PENDING, Status.RUNNING}


class Queued(ABC):
    """The part of a memory store that keeps queues."""

    _lock: Lock
    _tables: Tables

    @property
    @abstractmethod
    def clock(self) -> Clock:
        """The clock of the store."""

    @abstractmethod
    def _writing(self) -> AbstractContextManager[Transaction]: ...

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
        now = self.clock.now()
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
            parked=sum(_is_parked(run, now) for run in begun),
            next_at=instant(allowed.next_at) if allowed is not None and not allowed.count else None,
            shares=tuple(ShareLoad(share, waits[share], places[share]) for share in ranked),
            share_count=len(waits),
        )

    def _unwritten(self, name: str) -> StoredQueue | None:
        return StoredQueue(name=name, revision=0, body=b"", gate=OPEN) if name in self._tables.lines else None


def waiting_at(tables: Tables, queue: str, now: datetime) -> list[RunRow]:
    """The runs that wait at the gate of a queue and are due."""
    return [
        run
        for no, standing in tables.standings.items()
        if standing.how == "waits"
        and (run := tables.runs[no]).queue == queue
        and not run.instance
        and run.status in _OPEN
        and run.available_at is not None
        and run.available_at <= now
    ]


def begun_of(tables: Tables, queue: str) -> list[RunRow]:
    """The runs of a queue that have a place."""
    return [
        run
        for no, standing in tables.standings.items()
        if standing.how == "begun" and (run := tables.runs[no]).queue == queue and run.ended_at is None
    ]


class Admitted(msgspec.Struct):
    """The runs that a gate admits, and the state this leaves behind."""

    picks: list[Pick[RunRow]]
    next_at: int | None = None


def admitted(
    tables: Tables,
    request: ClaimRequest,
    queue: str,
    now: datetime,
    *,
    place: Callable[[RunRow], tuple[int, datetime | None, int]],
    put_off: Callable[[list[RunRow]], None],
    elsewhere: Collection[tuple[str, str]],
) -> Admitted:
    """The runs that the gate admits for this worker, in order. `put_off`: runs that no live worker can run."""
    worker, only, waiting = request.worker, request.only, waiting_at(tables, queue, now)
    if not waiting:
        return Admitted([])
    in_line = tables.lines.setdefault(queue, Line())
    for run in waiting:
        in_line.shares.setdefault(tables.standings[run.no].share, in_line.time)
    stored = tables.queues.get(queue)
    gate = OPEN if stored is None else stored.gate
    counted = [run for run in begun_of(tables, queue) if not (gate.frees_parked and _is_parked(run, now))]
    held = sum(run.instance == worker.instance for run in counted)
    space = room(gate, request.limit, begun=len(counted), held=held, until=in_line.until, now=micros(now))
    if not space.count:
        return Admitted([], space.next_at)
    begun = Counter(tables.standings[run.no].share for run in counted)

    def runs_of(share: str) -> Iterator[RunRow]:
        here = sorted((run for run in waiting if tables.standings[run.no].share == share), key=place)
        if not here:
            del in_line.shares[share]
        foreign = [run for run in here if (run.workflow, run.version) not in worker.definitions]
        put_off([run for run in foreign if (run.workflow, run.version) not in elsewhere])
        mine = (run for run in here if (run.workflow, run.version) in worker.definitions)
        return (run for run in mine if not only or run.id in only)

    shares = sorted((time, share) for share, time in in_line.shares.items())
    found = line(shares, runs_of=runs_of, places_of=lambda share: _left(gate, begun[share]), gate=gate)
    return Admitted(list(islice(found, space.count)))


def let_in(tables: Tables, queue: str, picks: Sequence[Pick[RunRow]], now: datetime) -> None:
    """Starts these runs: their shares advance, and the rate is used."""
    if not picks:
        return
    in_line, stored = tables.lines[queue], tables.queues.get(queue)
    in_line.shares.update(times_after(picks))
    in_line.time = max(in_line.time, *(pick.start for pick in picks), 0)
    if stored is not None and stored.gate.interval:
        in_line.until = spent(stored.gate.interval, in_line.until, micros(now), len(picks))


def _left(gate: Gate, begun: int) -> int | None:
    return None if gate.share_at_once is None else gate.share_at_once - begun


def _is_parked(run: RunRow, now: datetime) -> bool:
    is_due = run.status in _OPEN and run.available_at is not None and run.available_at <= now
    return not run.instance and not is_due


def _put_gate(tables: Tables, write: Transaction, queue: str) -> None:
    """Gives the queue its first rules. Runs that have begun get a place; the others wait."""
    for run in list(tables.runs.values()):
        if run.queue == queue and run.ended_at is None and not run.parent and run.no not in tables.standings:
            has_begun = run.started_at is not None or run.instance
            stand(tables, run, Standing(run.workflow, "begun" if has_begun else "waits"), write.now)
