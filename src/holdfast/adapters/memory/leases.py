"""Workers, heartbeats, claims and leases in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice

import msgspec

from holdfast.adapters.memory import lease_operations
from holdfast.adapters.memory.access import Access
from holdfast.adapters.memory.claims import claim_runs, held_by, waiting
from holdfast.adapters.memory.gate import waiting_at
from holdfast.adapters.memory.heart import MemoryHeart
from holdfast.adapters.memory.tables import Registration
from holdfast.adapters.system.process import is_gone, process_mark
from holdfast.core.status import Status
from holdfast.ports.leases import (
    Beat,
    ClaimRequest,
    Claims,
    Held,
    HeldBy,
    Lease,
    Over,
    Taken,
    TakeOver,
    Taking,
    WorkerRow,
)


class Leasing(Access):
    """The part of a memory store that lends runs to workers."""

    async def register(self, worker: WorkerRow, ttl: timedelta, *, takes_over: TakeOver) -> Sequence[str]:
        """See `ports.leases`."""
        boot, second = self._clock.boot()
        with self._writing() as write:
            freed: list[str] = []
            for other in self._tables.workers.values():
                if other.worker.worker != worker.worker or other.worker.instance == worker.instance:
                    continue
                is_here = (other.worker.host, other.boot) == (worker.host, boot)
                has_died = takes_over == "gone" and is_here and is_gone(other.worker.pid, other.mark)
                if takes_over == "all" or has_died:
                    other.has_ended, other.seen_at = True, write.now
                    freed += lease_operations.free(write, held_by(self._tables, other.worker.instance))
            until, mark = second + ttl.total_seconds(), process_mark(worker.pid)
            self._tables.workers[worker.instance] = Registration(worker, boot, until, mark, write.now)
            lease_operations.recall(write, worker.definitions)
            return freed

    def heart(self, instance: str, ttl: timedelta) -> MemoryHeart:
        """See `ports.leases`."""
        return MemoryHeart(self.beat, instance, ttl)

    def beat(
        self, instance: str, ttl: timedelta, progress: str, recovery: str, frees: int, *, takes_back: bool
    ) -> Beat:
        """Renews this instance, and frees the runs of dead instances."""
        boot, second = self._clock.boot()
        with self._writing() as write:
            own = self._tables.workers.get(instance)
            has_lapsed = own is None or not own.is_live(boot, second)
            if own is not None:
                own.boot, own.until, own.has_ended = boot, second + ttl.total_seconds(), False
                own.worker = msgspec.structs.replace(own.worker, progress=progress, recovery=recovery)
                own.seen_at = write.now
            if has_lapsed and takes_back:
                lease_operations.take_back(write, instance, list(self._tables.runs.values()))
            held = (run for run in self._tables.runs.values() if run.instance not in {"", instance})
            # Holder by holder, as a database finds them, and suspects first (see `weight`).
            by_holder = sorted(held, key=lambda run: (run.instance, not run.suspicion.is_suspect))
            orphans = (run for run in by_holder if not self._is_live(run.instance))
            freed = len(lease_operations.free(write, islice(orphans, frees)))
            holders = {run.instance for run in self._tables.runs.values()} - {"", instance}
            expiries = (self._expiry(x, write.now) if self._is_live(x) else write.now for x in holders)
            quiet_until = None
            if own is not None:
                due = [
                    run.available_at for run in waiting(self._tables, own.worker.queues, write.now) if run.available_at
                ]
                if any(waiting_at(self._tables, queue, write.now) for queue in own.worker.queues):
                    due.append(write.now)
                quiet_until = max(write.now, min([write.now + ttl, *due]))
            return Beat(write.now, has_lapsed, freed, min(expiries, default=None), quiet_until)

    async def claim(self, request: ClaimRequest) -> Claims:
        """See `ports.leases`. `max_claims` has no effect here: such a run is claimed too."""
        claimer = self._claimers[request.worker.instance]
        with self._writing() as write:
            claims, shares = claim_runs(write, request, self._clock, claimer.ahead, is_taking=True)
        claimer.took(shares)
        return claims

    async def due(self, request: ClaimRequest) -> Claims:
        """See `ports.leases`."""
        ahead = self._claimers[request.worker.instance].ahead
        with self._writing() as write:
            return claim_runs(write, request, self._clock, ahead, is_taking=False)[0]

    async def acquit(self, run: int, *, epoch: int) -> bool:
        """See `ports.leases`."""
        with self._writing() as write:
            row = self._tables.runs.get(run)
            if row is None or row.epoch != epoch or not row.instance:
                return False
            lease_operations.acquit(write, row)
            return True

    async def reinstate(self, run: str, *, instance: str, epoch: int) -> bool:
        """See `ports.leases`."""
        with self._writing() as write:
            row, holder = self._tables.run(run), self._tables.workers.get(instance)
            if row is None or holder is None or holder.has_ended:
                return False
            if row.epoch != epoch or row.instance not in {"", instance}:
                return False
            if row.status not in {Status.PENDING, Status.RUNNING}:
                return False
            lease_operations.reinstate(write, row, instance)
            return True

    async def lease(self, run: str) -> Lease | None:
        """See `ports.leases`."""
        with self._lock:
            row = self._tables.run(run)
            if row is None or not row.instance or not self._is_live(row.instance):
                return None
            return Lease(row.id, row.worker, row.instance, row.epoch, self._expiry(row.instance, self._clock.now()))

    async def held(self, instance: str) -> Mapping[str, Held]:
        """See `ports.leases`."""
        with self._lock:
            return {run.id: Held(run.epoch, run.inbox_last) for run in held_by(self._tables, instance)}

    async def take(self, run: str, *, instance: str, steal: bool = False) -> Taking:
        """See `ports.leases`."""
        with self._writing() as write:
            row = self._tables.run(run)
            if row is None:
                return None
            if row.status.is_terminal:
                return Over(row.status)
            if row.instance and not steal and self._is_live(row.instance):
                return HeldBy(row.worker, row.instance, self._expiry(row.instance, write.now))
            known = self._tables.workers.get(instance)
            self._claimers.count(instance, row.workflow)
            return Taken(
                lease_operations.hold(write, row, instance, known.worker.worker if known else "", is_claim=False)
            )

    async def release(self, run: int, *, epoch: int, until: datetime | None, inbox_seen: int, note: str = "") -> bool:
        """See `ports.leases`."""
        with self._writing() as write:
            row = self._tables.runs.get(run)
            if row is None or row.epoch != epoch or row.status.is_terminal:
                return False
            lease_operations.release(write, row, until, inbox_seen, note)
            return True

    async def release_all(self, instance: str) -> int:
        """See `ports.leases`."""
        with self._writing() as write:
            runs = held_by(self._tables, instance)
            for run in runs:
                lease_operations.release(write, run, write.now, run.inbox_last)
            known = self._tables.workers.get(instance)
            if known is not None:
                known.has_ended, known.seen_at = True, write.now
            self._claimers.pop(instance, None)
            return len(runs)

    async def workers(self) -> Sequence[WorkerRow]:
        """See `ports.leases`. Live workers come first, each group by its start."""
        boot, second = self._clock.boot()
        with self._lock:
            rows = [
                msgspec.structs.replace(
                    known.worker,
                    is_live=known.is_live(boot, second),
                    active=len(held_by(self._tables, known.worker.instance)),
                    seen_at=known.seen_at,
                )
                for known in self._tables.workers.values()
            ]
        return sorted(rows, key=lambda row: (not row.is_live, row.started_at, row.instance))

    # -- the lock is held in all of these ------------------------------------------------------------------------------

    def _is_live(self, instance: str) -> bool:
        known = self._tables.workers.get(instance)
        return known is not None and known.is_live(*self._clock.boot())

    def _expiry(self, instance: str, now: datetime) -> datetime:
        return now + timedelta(seconds=self._tables.workers[instance].until - self._clock.boot()[1])
