"""The leases of a SQLite store: each verb is one operation of the writer or one query of a reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial

from holdfast.adapters.sql.rows import maybe_instant, maybe_micros, worker_row
from holdfast.adapters.sqlite import lease_operations
from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite.access import MANY, Access
from holdfast.adapters.sqlite.claims import ClaimRuns, DueRuns, Prospect, survey
from holdfast.adapters.sqlite.connections import NotText, fetch
from holdfast.adapters.sqlite.heart import SqliteHeart
from holdfast.core.turn import micros
from holdfast.ports.leases import ClaimRequest, Claims, Held, Lease, Taken, TakeOver, Taking, WorkerRow


class Leasing(Access):
    """The part of a SQLite store that lends runs to workers."""

    async def register(self, worker: WorkerRow, ttl: timedelta, *, takes_over: TakeOver) -> Sequence[str]:
        """See `ports.leases`."""
        return await self._write(lease_operations.Register(worker, ttl, takes_over))

    def heart(self, instance: str, ttl: timedelta) -> SqliteHeart:
        """See `ports.leases`."""
        self._check_process()
        return SqliteHeart(instance, ttl, self._link(), self._clock, self._listeners.tell)

    async def claim(self, request: ClaimRequest) -> Claims:
        """See `ports.leases`. `max_claims` has no effect here: such a run is claimed too."""
        worker, limit, shares = request.worker, request.limit, self._claimers[request.worker.instance]
        prospect: Prospect | None = None
        if limit <= 0 or not request.only:
            now = micros(self._clock.now())
            with suppress(NotText):  # the writer sets aside what cannot be read
                prospect = self._read(lambda connection: survey(partial(fetch, connection), worker, self._clock, now))
                if limit <= 0 or prospect.is_empty:
                    return Claims([], maybe_instant(prospect.next_due))
        claim = ClaimRuns(request, shares.ahead, prospect)
        claims = await self._write(claim, is_large=limit > MANY)
        shares.took(claim.shares)
        return claims

    async def due(self, request: ClaimRequest) -> Claims:
        """See `ports.leases`."""
        ahead = self._claimers[request.worker.instance].ahead
        return await self._write(DueRuns(request, ahead), is_large=request.limit > MANY)

    async def acquit(self, run: int, *, epoch: int) -> bool:
        """See `ports.leases`."""
        return await self._write(lambda transaction: lease_operations.acquit(transaction, run, epoch))

    async def reinstate(self, run: str, *, instance: str, epoch: int) -> bool:
        """See `ports.leases`."""
        return await self._write(lambda transaction: lease_operations.reinstate(transaction, run, instance, epoch))

    async def lease(self, run: str) -> Lease | None:
        """See `ports.leases`."""
        return self._read(lambda connection: lease_operations.lease_of(partial(fetch, connection), self._clock, run))

    async def held(self, instance: str) -> Mapping[str, Held]:
        """See `ports.leases`."""
        return {run: Held(epoch, inbox_last) for run, epoch, inbox_last in self._rows(sql.HELD, instance)}

    async def take(self, run: str, *, instance: str, steal: bool = False) -> Taking:
        """See `ports.leases`."""
        taking = await self._write(lease_operations.Take(run, instance, steal=steal))
        if isinstance(taking, Taken):
            self._claimers.count(instance, taking.run.workflow)
        return taking

    async def release(self, run: int, *, epoch: int, until: datetime | None, inbox_seen: int, note: str = "") -> bool:
        """See `ports.leases`."""
        values = (note, inbox_seen, maybe_micros(until), run, epoch)
        return await self._write(lambda transaction: lease_operations.release(transaction, values))

    async def release_all(self, instance: str) -> int:
        """See `ports.leases`."""
        self._claimers.pop(instance, None)
        return await self._write(lambda transaction: lease_operations.release_all(transaction, instance), is_large=True)

    async def workers(self) -> Sequence[WorkerRow]:
        """See `ports.leases`. Live workers come first, each group by its start."""
        boot, second = lease_operations.boot_micros(self._clock)
        rows = [worker_row(row, boot, second) for row in self._rows(sql.WORKERS)]
        return sorted(rows, key=lambda row: not row.is_live)
