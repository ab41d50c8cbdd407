"""The leases of a PostgreSQL store: each verb is one function call or one query."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from holdfast.adapters.postgres import statements as sql
from holdfast.adapters.postgres import wire
from holdfast.adapters.postgres.access import Access
from holdfast.adapters.postgres.clock import Moments
from holdfast.adapters.postgres.heart import PostgresHeart
from holdfast.adapters.postgres.lane import Lane
from holdfast.adapters.postgres.link import Link
from holdfast.adapters.sql.rows import encoded, maybe_instant, maybe_micros, run_row, worker_row
from holdfast.adapters.system.process import is_gone, process_mark
from holdfast.core.instants import nearest_instant
from holdfast.core.shares import Share
from holdfast.core.turn import micros
from holdfast.ports.journal import Commit
from holdfast.ports.leases import ClaimRequest, Claims, Held, HeldBy, Lease, Over, Taken, TakeOver, Taking, WorkerRow

PROMOTED_A_CLAIM = 500
BOUNCED_A_CLAIM = 100
REMEMBERED = timedelta(days=1)
"""How long a dead instance that holds nothing stays on the list."""

TAKEN, IS_HELD, IS_OVER = 0, 1, 2
_MICROSECOND = timedelta(microseconds=1)


class Leasing(Access, ABC):
    """The part of a PostgreSQL store that lends runs to workers."""

    @abstractmethod
    def _lane_of_turns(self) -> Lane[Sequence[Commit]]: ...

    async def register(self, worker: WorkerRow, ttl: timedelta, *, takes_over: TakeOver) -> Sequence[str]:
        """See `ports.leases`."""
        freed, recalled = await self._run(
            lambda link: _register(link, self._moments, worker, ttl, takes_over=takes_over)
        )
        self._lane_of_turns()  # there will be turns: it connects meanwhile
        self._tell([*freed, *recalled])
        return freed

    def heart(self, instance: str, ttl: timedelta) -> PostgresHeart:
        """See `ports.leases`."""
        self._check_process()
        return PostgresHeart(instance, ttl, self._link(), self._moments, self._tell)

    async def claim(self, request: ClaimRequest) -> Claims:
        """See `ports.leases`. `max_claims` has no effect here: such a run is claimed too."""
        shares = self._claimers[request.worker.instance]
        ahead = shares.ahead
        claims, taken = await self._run(lambda link: _claim(link, self._moments, request, ahead))
        shares.took(taken)
        return claims

    async def due(self, request: ClaimRequest) -> Claims:
        """See `ports.leases`."""
        ahead = self._claimers[request.worker.instance].ahead
        claims, _ = await self._run(lambda link: _claim(link, self._moments, request, ahead, takes=False))
        return claims

    async def acquit(self, run: int, *, epoch: int) -> bool:
        """See `ports.leases`."""
        return bool(await self._rows(sql.ACQUIT, run, epoch))

    async def reinstate(self, run: str, *, instance: str, epoch: int) -> bool:
        """See `ports.leases`."""
        ((is_done,),) = await self._rows(sql.REINSTATE, run, instance, epoch)
        return bool(is_done)

    async def lease(self, run: str) -> Lease | None:
        """See `ports.leases`."""
        return await self._run(lambda link: _lease(link, self._moments, run))

    async def held(self, instance: str) -> Mapping[str, Held]:
        """See `ports.leases`."""
        return {run: Held(epoch, inbox_last) for run, epoch, inbox_last in await self._rows(sql.HELD, instance)}

    async def take(self, run: str, *, instance: str, steal: bool = False) -> Taking:
        """See `ports.leases`."""
        taking = await self._run(lambda link: _take(link, self._moments, run, instance, steal=steal))
        if isinstance(taking, Taken):
            self._claimers.count(instance, taking.run.workflow)
        return taking

    async def release(self, run: int, *, epoch: int, until: datetime | None, inbox_seen: int, note: str = "") -> bool:
        """See `ports.leases`."""
        ((released,),) = await self._rows(
            sql.RELEASE, self._moments.wall(), run, epoch, maybe_micros(until), inbox_seen, note
        )
        self._tell(() if released is None else (released,))
        return released is not None

    async def release_all(self, instance: str) -> int:
        """See `ports.leases`."""
        self._claimers.pop(instance, None)
        ((released,),) = await self._rows(sql.RELEASE_ALL, self._moments.wall(), instance)
        self._tell(released)
        return len(released)

    async def workers(self) -> Sequence[WorkerRow]:
        """See `ports.leases`. Live workers come first, each group by its start."""
        return await self._run(lambda link: _workers(link, self._moments))


def _register(
    link: Link, moments: Moments, worker: WorkerRow, ttl: timedelta, *, takes_over: TakeOver
) -> tuple[list[str], list[str]]:
    """Registers the worker. Returns the runs of earlier instances, which are free now, and those that a worker can now
    run."""
    boot, _ = moments.clock.boot()
    siblings = link.ask(sql.SIBLINGS, (worker.worker, worker.instance)) if takes_over != "none" else ()
    replaced = [
        instance
        for instance, pid, host, its_boot, mark in siblings
        if takes_over == "all" or (its_boot == boot and host == worker.host and pid > 0 and is_gone(pid, mark))
    ]
    new = {
        "instance": worker.instance,
        "worker": worker.worker,
        "queues": encoded(worker.queues),
        "definitions": encoded(worker.definitions),
        "pid": worker.pid,
        "host": worker.host,
        "boot": boot,
        "mark": process_mark(worker.pid),
        "started_at": micros(worker.started_at),
        "progress": worker.progress,
    }
    values = (
        moments.wall(),
        *moments.lease(),
        wire.encoded_json(new),
        ttl // _MICROSECOND,
        replaced,
        REMEMBERED // _MICROSECOND,
    )
    ((freed, recalled),) = link.ask(sql.REGISTER, values)
    return freed, recalled


def _claim(
    link: Link, moments: Moments, request: ClaimRequest, ahead: Mapping[Share, int], *, takes: bool = True
) -> tuple[Claims, list[Share]]:
    """Claims runs for the worker, with what each competed as. Not repeated after a lost answer: a second claim would
    take different runs, and the worker would not know that it holds the first. The caller is told of the loss and asks
    what it holds."""
    worker = request.worker
    values = (
        moments.wall(),
        *moments.lease(),
        worker.instance,
        worker.worker,
        list(dict.fromkeys(worker.queues)),
        [workflow for workflow, _ in worker.definitions],
        [version for _, version in worker.definitions],
        max(request.limit, 0),
        list(request.only) or None,
        PROMOTED_A_CLAIM,
        BOUNCED_A_CLAIM,
        takes,
        list(ahead),
        list(ahead.values()),
    )
    first, *taken = link.ask(sql.CLAIM, values, bears_repeating=not takes)
    delayed = iter(first[1] or ())
    put_off = tuple(zip(delayed, delayed, strict=True))
    claims = Claims([run_row(row[4:]) for row in taken], maybe_instant(first[0]), put_off, first[2])
    return claims, [row[3] for row in taken]


def _take(link: Link, moments: Moments, run: str, instance: str, *, steal: bool) -> Taking:
    """Takes one run for an operator."""
    ((code, expires_at, *columns),) = link.ask(
        sql.TAKE, lambda is_again: (moments.wall(), *moments.lease(), run, instance, steal, is_again)
    )
    if code not in {TAKEN, IS_HELD, IS_OVER}:
        return None
    row = run_row(tuple(columns))
    if code == TAKEN:
        return Taken(row)
    return HeldBy(row.worker, row.instance, nearest_instant(expires_at)) if code == IS_HELD else Over(row.status)


def _lease(link: Link, moments: Moments, run: str) -> Lease | None:
    """The holder of the run."""
    for worker, instance, epoch, expires_at in link.ask(sql.LEASE, (moments.wall(), *moments.lease(), run)):
        return Lease(run, worker, instance, epoch, nearest_instant(expires_at))
    return None


def _workers(link: Link, moments: Moments) -> list[WorkerRow]:
    """Every known instance, live ones first."""
    boot, second = moments.lease()
    rows = [worker_row(row[:-1], boot or "", row[-1]) for row in link.ask(sql.WORKERS, (second,))]
    return sorted(rows, key=lambda row: not row.is_live)
