"""Workers, heartbeats, claims and leases in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice

import msgspec

from holdfast.adapters.memory.blob_store import Keeping
from holdfast.adapters.memory.queues import Admitted, admitted, let_in, waiting_at
from holdfast.adapters.memory.tables import Registration
from holdfast.adapters.system.process import is_gone, process_mark
from holdfast.core.backoff import put_off
from holdfast.core.shares import Share, fair_order, queue_share, share_of
from holdfast.core.status import Status
from holdfast.core.turn import instant
from holdfast.ports.admission import may_begin
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
from holdfast.ports.runs import RunRow


class Leases(Keeping):
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
                    freed += write.free(self._held_by(other.worker.instance))
            until, mark = second + ttl.total_seconds(), process_mark(worker.pid)
            self._tables.workers[worker.instance] = Registration(worker, boot, until, mark, write.now)
            write.recall(worker.definitions)
            return freed

    def heart(self, instance: str, ttl: timedelta) -> MemoryHeart:
        """See `ports.leases`."""
        return MemoryHeart(self, instance, ttl)

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
                write.take_back(instance, list(self._tables.runs.values()))
            runs = sorted(self._tables.runs.values(), key=lambda run: not run.suspicion.is_suspect)  # see `weight`
            orphans = (run for run in runs if run.instance not in {"", instance} and not self._is_live(run.instance))
            freed = len(write.free(islice(orphans, frees)))
            holders = {run.instance for run in self._tables.runs.values()} - {"", instance}
            expiries = (self._expiry(x, write.now) if self._is_live(x) else write.now for x in holders)
            quiet_until = None
            if own is not None:
                due = [run.available_at for run in self._waiting(own.worker.queues) if run.available_at]
                if any(waiting_at(self._tables, queue, write.now) for queue in own.worker.queues):
                    due.append(write.now)
                quiet_until = max(write.now, min([write.now + ttl, *due]))
            return Beat(write.now, has_lapsed, freed, min(expiries, default=None), quiet_until)

    async def claim(self, request: ClaimRequest) -> Claims:
        """See `ports.leases`. `max_claims` has no effect here: such a run is claimed too."""
        claims, shares = self._go_through(request, is_taking=True)
        self._claimers[request.worker.instance].took(shares)
        return claims

    async def due(self, request: ClaimRequest) -> Claims:
        """See `ports.leases`."""
        return self._go_through(request, is_taking=False)[0]

    def _go_through(self, request: ClaimRequest, *, is_taking: bool) -> tuple[Claims, list[Share]]:
        worker = request.worker
        taken: list[RunRow] = []
        bounced: list[tuple[str, str]] = []
        with self._writing() as write:
            elsewhere = self._live_definitions()

            def put_off_all(runs: Sequence[RunRow]) -> None:
                for run in runs:
                    write.bounce(run, write.now + put_off(run.bounces), _missing(run))
                    bounced.append((run.id, _missing(run)))

            gates = {
                queue: admitted(
                    self._tables, request, queue, write.now, place=_place, put_off=put_off_all, elsewhere=elsewhere
                )
                for queue in dict.fromkeys(worker.queues)
            }
            shares = {pick.run.no: queue_share(queue) for queue, gate in gates.items() for pick in gate.picks}
            for run in self._in_order(request, write.now, gates):
                definition = (run.workflow, run.version)
                if len(taken) == request.limit:
                    break
                if definition in worker.definitions:
                    if is_taking:
                        run = write.hold(run, worker.instance, worker.worker, is_claim=True)  # noqa: PLW2901
                    taken.append(run)
                elif definition not in elsewhere:
                    put_off_all([run])
            seen = {run.no for run in taken}
            for queue, gate in gates.items() if is_taking else ():
                let_in(self._tables, queue, [pick for pick in gate.picks if pick.run.no in seen], write.now)
            left = [
                queue for queue in gates if any(x.no not in seen for x in waiting_at(self._tables, queue, write.now))
            ]
            times = [instant(gates[queue].next_at or 0) for queue in left if gates[queue].next_at is not None]
            times += [run.available_at for run in self._left(worker, write.now, seen) if run.available_at]
        is_held_back = bool(left) and len(taken) < request.limit
        claims = Claims(taken, min(times, default=None), tuple(bounced), is_held_back)
        return claims, [shares.get(run.no) or share_of(run.workflow) for run in taken]

    def _left(self, worker: WorkerRow, now: datetime, seen: Collection[int]) -> list[RunRow]:
        """When something more may be claimed: later, or now by a claim with more places."""
        return [
            run
            for run in self._waiting(worker.queues)
            if run.available_at and run.no not in seen
            if run.available_at > now
            or ((run.workflow, run.version) in worker.definitions and not run.suspicion.is_suspect)
        ]

    def _in_order(self, request: ClaimRequest, now: datetime, gates: Mapping[str, Admitted]) -> list[RunRow]:
        """The runs that may be claimed, in the order of claims, with at most one suspect."""
        worker, only = request.worker, request.only
        may = [run for run in self._waiting(worker.queues) if may_begin(run, now) and (not only or run.id in only)]
        suspects = [
            run for run in may if run.suspicion.is_suspect and (run.workflow, run.version) in worker.definitions
        ]
        has_suspect = any(run.suspicion.is_suspect for run in self._held_by(worker.instance))
        passed_over = {run.no for run in (suspects if has_suspect else sorted(suspects, key=_place)[1:])}
        return fair_order(
            [run for run in may if run.no not in passed_over],
            share=lambda run: share_of(run.workflow),
            place=_place,
            ahead=self._claimers[worker.instance].ahead,
            lines={queue_share(queue): [pick.run for pick in gate.picks] for queue, gate in gates.items()},
        )

    async def acquit(self, run: int, *, epoch: int) -> bool:
        """See `ports.leases`."""
        with self._writing() as write:
            row = self._tables.runs.get(run)
            if row is None or row.epoch != epoch or not row.instance:
                return False
            write.acquit(row)
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
            write.reinstate(row, instance)
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
            return {run.id: Held(run.epoch, run.inbox_last) for run in self._held_by(instance)}

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
            return Taken(write.hold(row, instance, known.worker.worker if known else "", is_claim=False))

    async def release(self, run: int, *, epoch: int, until: datetime | None, inbox_seen: int, note: str = "") -> bool:
        """See `ports.leases`."""
        with self._writing() as write:
            row = self._tables.runs.get(run)
            if row is None or row.epoch != epoch or row.status.is_terminal:
                return False
            write.release(row, until, inbox_seen, note)
            return True

    async def release_all(self, instance: str) -> int:
        """See `ports.leases`."""
        with self._writing() as write:
            runs = self._held_by(instance)
            for run in runs:
                write.release(run, write.now, run.inbox_last)
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
                    active=len(self._held_by(known.worker.instance)),
                    seen_at=known.seen_at,
                )
                for known in self._tables.workers.values()
            ]
        return sorted(rows, key=lambda row: (not row.is_live, row.started_at, row.instance))

    # -- the lock is held in all of these ------------------------------------------------------------------------------

    def _waiting(self, queues: Sequence[str]) -> list[RunRow]:
        """Runs without a holder that do not wait at a gate."""
        standings, now = self._tables.standings, self._clock.now()
        return [
            run
            for run in self._tables.runs.values()
            if run.queue in queues
            and (
                run.no not in standings
                or standings[run.no].how != "waits"
                or (run.available_at is not None and run.available_at > now)
            )
            and not run.instance
            and not run.status.is_terminal
            and run.status is not Status.PAUSED
        ]

    def _held_by(self, instance: str) -> list[RunRow]:
        return [run for run in self._tables.runs.values() if instance and run.instance == instance]

    def _is_live(self, instance: str) -> bool:
        known = self._tables.workers.get(instance)
        return known is not None and known.is_live(*self._clock.boot())

    def _expiry(self, instance: str, now: datetime) -> datetime:
        return now + timedelta(seconds=self._tables.workers[instance].until - self._clock.boot()[1])

    def _live_definitions(self) -> set[tuple[str, str]]:
        boot, second = self._clock.boot()
        live = [known.worker for known in self._tables.workers.values() if known.is_live(boot, second)]
        return {definition for worker in live for definition in worker.definitions}


class MemoryHeart:
    """The heartbeat of one instance of a memory store."""

    def __init__(self, store: Leases, instance: str, ttl: timedelta) -> None:
        self._store = store
        self._instance = instance
        self._ttl = ttl

    def beat(self, progress: str = "", *, recovery: str = "", frees: int = 100, takes_back: bool = True) -> Beat:
        """See `ports.leases`."""
        return self._store.beat(self._instance, self._ttl, progress, recovery, frees, takes_back=takes_back)

    def close(self) -> None: ...


def _place(run: RunRow) -> tuple[int, datetime | None, int]:
    return -run.priority, run.available_at, run.no


def _missing(run: RunRow) -> str:
    version = f" (version {run.version})" if run.version else ""
    return f"no live worker holds workflow {run.workflow}{version}; start one that does"
