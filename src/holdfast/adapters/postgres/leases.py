"""The verbs of leases and topics, as calls of the schema's functions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from holdfast.adapters.postgres import statements as sql
from holdfast.adapters.postgres import wire
from holdfast.adapters.postgres.clock import Moments
from holdfast.adapters.postgres.link import Link
from holdfast.adapters.sql.rows import encoded, maybe_instant, run_row, worker_row
from holdfast.adapters.system.process import is_gone, process_mark
from holdfast.core.instants import nearest_instant
from holdfast.core.shares import Share
from holdfast.core.turn import micros
from holdfast.ports.inbox import Publication
from holdfast.ports.leases import ClaimRequest, Claims, HeldBy, Lease, Over, Taken, TakeOver, Taking, WorkerRow

PROMOTED_A_CLAIM = 500
BOUNCED_A_CLAIM = 100
REMEMBERED = timedelta(days=1)
"""How long a dead instance that holds nothing stays on the list."""

TAKEN, IS_HELD, IS_OVER = 0, 1, 2
_MICROSECOND = timedelta(microseconds=1)


def register(
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


def claim(
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


def take(link: Link, moments: Moments, run: str, instance: str, *, steal: bool) -> Taking:
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


def lease(link: Link, moments: Moments, run: str) -> Lease | None:
    """The holder of the run."""
    for worker, instance, epoch, expires_at in link.ask(sql.LEASE, (moments.wall(), *moments.lease(), run)):
        return Lease(run, worker, instance, epoch, nearest_instant(expires_at))
    return None


def workers(link: Link, moments: Moments) -> list[WorkerRow]:
    """Every known instance, live ones first."""
    boot, second = moments.lease()
    rows = [worker_row(row[:-1], boot or "", row[-1]) for row in link.ask(sql.WORKERS, (second,))]
    return sorted(rows, key=lambda row: not row.is_live)


def publish(link: Link, moments: Moments, publication: Publication) -> tuple[list[str], list[str]]:
    """Publishes to a topic. Returns the runs it reached and those it woke."""
    ((reached, woken),) = link.ask(sql.PUBLISH, (moments.wall(), wire.encoded_json(wire.publication(publication))))
    return reached, woken
