"""Leases of runs: giving, taking, freeing and releasing them, and what a death counts against a run."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from holdfast.adapters.memory import gate
from holdfast.adapters.memory.transaction import Transaction
from holdfast.core.status import Status
from holdfast.core.suspicion import NONE, Suspicion, Weight, after_death, taken_back, weight
from holdfast.ports.runs import RunRow


def hold(transaction: Transaction, run: RunRow, instance: str, worker: str, *, is_claim: bool) -> RunRow:
    """Gives the lease, with the next epoch. Only a claim is counted, and only a claim clears the note of why the
    run waited."""
    held = transaction.change(run.no, instance=instance, worker=worker, epoch=run.epoch + 1)
    gate.begin(transaction.tables, run.no)
    return transaction.change(run.no, claims=held.claims + 1, bounces=0, note="") if is_claim else held


def release(
    transaction: Transaction, run: RunRow, until: datetime | None, inbox_seen: int, note: str | None = None
) -> None:
    """Releases the run without a turn. A worker that does this was not killed by the run, so the claim is not
    counted. With a note the run is put off; None keeps the earlier note."""
    said = {} if note is None else {"note": note, "bounces": run.bounces + bool(note)}
    transaction.change(run.no, claims=max(0, run.claims - 1), **said)
    suspect(transaction, run.no, NONE)
    available_at = transaction.now if run.inbox_last > inbox_seen else until
    transaction.change(run.no, instance="", available_at=available_at)
    gate.give_place_back(transaction.tables, run.no, transaction.now)
    if available_at is not None:
        transaction.hints[run.id] = None


def free(transaction: Transaction, runs: Iterable[RunRow]) -> list[str]:
    """Releases the runs: they are available now, and their epochs stay."""
    found = list(runs)
    weights = {run.instance: _weight(transaction, run.instance) for run in found}  # before any of them leaves
    freed = [_free(transaction, run, weights[run.instance] if run.suspicion.is_suspect else 0).id for run in found]
    transaction.hints.update(dict.fromkeys(freed))
    return freed


def _free(transaction: Transaction, run: RunRow, added: Weight) -> RunRow:
    transaction.tables.freed[run.no] = run.instance, added
    suspect(transaction, run.no, after_death(run.suspicion, run.claims, added))
    freed = transaction.change(run.no, instance="", available_at=transaction.now)
    if not run.claims:  # it was taken past the gate of its queue
        gate.give_place_back(transaction.tables, run.no, transaction.now)
    return freed


def _weight(transaction: Transaction, instance: str) -> Weight:
    aboard = [run for run in transaction.tables.runs.values() if run.instance == instance]
    return weight(suspects=sum(run.suspicion.is_suspect for run in aboard), held=len(aboard))


def take_back(transaction: Transaction, instance: str, runs: Iterable[RunRow]) -> None:
    """The instance had not died after all: takes back what its end counted against these runs."""
    for run in runs:
        holder, added = transaction.tables.freed.get(run.no, ("", 0))
        if holder == instance and run.suspicion.is_suspect:
            del transaction.tables.freed[run.no]
            claims = max(0, run.claims - 1)
            suspect(transaction, run.no, taken_back(run.suspicion, added) if claims else NONE)  # only claims are blamed
            transaction.change(run.no, claims=claims)


def acquit(transaction: Transaction, run: RunRow) -> None:
    """Clears the counts that make the run a suspect."""
    suspect(transaction, run.no, NONE)


def reinstate(transaction: Transaction, run: RunRow, instance: str) -> None:
    """Restores the lease as it was before the run was taken for free."""
    transaction.change(run.no, instance=instance)
    take_back(transaction, instance, [run])


def bounce(transaction: Transaction, run: RunRow, until: datetime, note: str) -> None:
    """Makes the run wait before the next claim."""
    transaction.change(run.no, available_at=until, bounces=run.bounces + 1, note=note)


def recall(transaction: Transaction, definitions: Iterable[tuple[str, str]]) -> None:
    """Makes runs available that were put off because one of these definitions was missing."""
    held = set(definitions)
    for run in list(transaction.tables.runs.values()):
        is_open = run.status in {Status.PENDING, Status.RUNNING}
        if run.bounces and is_open and not run.instance and (run.workflow, run.version) in held:
            due = transaction.change(run.no, available_at=transaction.now, bounces=0, note="")
            gate.line_up(transaction.tables, due, transaction.now)
            transaction.hints[run.id] = None


def suspect(transaction: Transaction, no: int, suspicion: Suspicion) -> None:
    """Records how far the run is suspected of killing its workers."""
    transaction.change(no, deaths=suspicion.deaths, solo=suspicion.solo, alone=suspicion.alone)
