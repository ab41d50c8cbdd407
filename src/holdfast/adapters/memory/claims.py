"""Claiming: finds runs for a worker, and leases them. The caller holds the lock."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from holdfast.adapters.memory import lease_operations
from holdfast.adapters.memory.gate import Admitted, admitted, let_in, waiting_at
from holdfast.adapters.memory.tables import Tables
from holdfast.adapters.memory.transaction import Transaction
from holdfast.core.backoff import put_off
from holdfast.core.shares import Share, fair_order, queue_share, share_of
from holdfast.core.status import Status
from holdfast.core.turn import instant
from holdfast.ports.admission import may_begin
from holdfast.ports.clock import Clock
from holdfast.ports.leases import ClaimRequest, Claims, WorkerRow
from holdfast.ports.runs import RunRow


def claim_runs(
    write: Transaction, request: ClaimRequest, clock: Clock, ahead: Mapping[Share, int], *, is_taking: bool
) -> tuple[Claims, list[Share]]:
    """What the worker may claim, with what each run competed as; with `is_taking` it is the holder now."""
    worker = request.worker
    taken: list[RunRow] = []
    bounced: list[tuple[str, str]] = []
    elsewhere = live_definitions(write.tables, clock)

    def put_off_all(runs: Sequence[RunRow]) -> None:
        for run in runs:
            lease_operations.bounce(write, run, write.now + put_off(run.bounces), _missing(run))
            bounced.append((run.id, _missing(run)))

    gates = {
        queue: admitted(write.tables, request, queue, write.now, place=_place, put_off=put_off_all, elsewhere=elsewhere)
        for queue in dict.fromkeys(worker.queues)
    }
    shares = {pick.run.no: queue_share(queue) for queue, gate in gates.items() for pick in gate.picks}
    for run in _in_order(write, request, gates, ahead):
        definition = (run.workflow, run.version)
        if len(taken) == request.limit:
            break
        if definition in worker.definitions:
            if is_taking:
                run = lease_operations.hold(write, run, worker.instance, worker.worker, is_claim=True)  # noqa: PLW2901
            taken.append(run)
        elif definition not in elsewhere:
            put_off_all([run])
    seen = {run.no for run in taken}
    for queue, gate in gates.items() if is_taking else ():
        let_in(write.tables, queue, [pick for pick in gate.picks if pick.run.no in seen], write.now)
    left = [queue for queue in gates if any(x.no not in seen for x in waiting_at(write.tables, queue, write.now))]
    times = [instant(gates[queue].next_at or 0) for queue in left if gates[queue].next_at is not None]
    times += [run.available_at for run in _left(write, worker, seen) if run.available_at]
    is_held_back = bool(left) and len(taken) < request.limit
    claims = Claims(taken, min(times, default=None), tuple(bounced), is_held_back)
    return claims, [shares.get(run.no) or share_of(run.workflow) for run in taken]


def _left(write: Transaction, worker: WorkerRow, seen: Collection[int]) -> list[RunRow]:
    """When something more may be claimed: later, or now by a claim with more places."""
    return [
        run
        for run in waiting(write.tables, worker.queues, write.now)
        if run.available_at and run.no not in seen
        if run.available_at > write.now
        or ((run.workflow, run.version) in worker.definitions and not run.suspicion.is_suspect)
    ]


def _in_order(
    write: Transaction, request: ClaimRequest, gates: Mapping[str, Admitted], ahead: Mapping[Share, int]
) -> list[RunRow]:
    """The runs that may be claimed, in the order of claims, with at most one suspect."""
    worker, only = request.worker, request.only
    due = waiting(write.tables, worker.queues, write.now)
    may = [run for run in due if may_begin(run, write.now) and (not only or run.id in only)]
    suspects = [run for run in may if run.suspicion.is_suspect and (run.workflow, run.version) in worker.definitions]
    has_suspect = any(run.suspicion.is_suspect for run in held_by(write.tables, worker.instance))
    passed_over = {run.no for run in (suspects if has_suspect else sorted(suspects, key=_place)[1:])}
    return fair_order(
        [run for run in may if run.no not in passed_over],
        share=lambda run: share_of(run.workflow),
        place=_place,
        ahead=ahead,
        lines={queue_share(queue): [pick.run for pick in gate.picks] for queue, gate in gates.items()},
    )


def waiting(tables: Tables, queues: Sequence[str], now: datetime) -> list[RunRow]:
    """Runs without a holder that do not wait at a gate."""
    standings = tables.standings
    return [
        run
        for run in tables.runs.values()
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


def held_by(tables: Tables, instance: str) -> list[RunRow]:
    """The runs that the instance holds."""
    return [run for run in tables.runs.values() if instance and run.instance == instance]


def live_definitions(tables: Tables, clock: Clock) -> set[tuple[str, str]]:
    """What some live worker can run."""
    boot, second = clock.boot()
    live = [known.worker for known in tables.workers.values() if known.is_live(boot, second)]
    return {definition for worker in live for definition in worker.definitions}


def _place(run: RunRow) -> tuple[int, datetime | None, int]:
    return -run.priority, run.available_at, run.no


def _missing(run: RunRow) -> str:
    version = f" (version {run.version})" if run.version else ""
    return f"no live worker holds workflow {run.workflow}{version}; start one that does"
