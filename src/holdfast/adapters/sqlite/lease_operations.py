"""Worker instances and their leases: registering, renewing and ending instances; freeing, taking and releasing runs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import msgspec

from holdfast.adapters.sql.rows import decoded_names, encoded, is_live, maybe_instant, run_row
from holdfast.adapters.sqlite import raw_statements as raw
from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite import suspect_statements as suspects_sql
from holdfast.adapters.sqlite.connections import NotText, is_text
from holdfast.adapters.sqlite.transaction import Transaction
from holdfast.adapters.system.process import is_gone, process_mark
from holdfast.core.instants import nearest_instant
from holdfast.core.suspicion import weight
from holdfast.core.turn import instant, micros
from holdfast.ports.clock import Clock
from holdfast.ports.leases import Beat, HeldBy, Lease, Over, Taken, TakeOver, Taking, WorkerRow
from holdfast.ports.runs import RunRow

REMEMBERED = timedelta(days=1)
"""How long a dead instance that holds nothing stays on the list."""

Ask: TypeAlias = Callable[[str, tuple[Any, ...]], list[Any]]
_MICROSECOND = timedelta(microseconds=1)
_ALL = -1  # SQLite's "no limit"


def boot_micros(clock: Clock) -> tuple[str, int]:
    """The boot id, and the whole microseconds since that boot."""
    boot, second = clock.boot()
    return boot, round(second * 1_000_000)  # a float is often a little less than the microseconds it stands for


class Register(msgspec.Struct, frozen=True):
    """`Leases.register` as an operation of the writer. Repeating it changes nothing."""

    worker: WorkerRow
    ttl: timedelta
    takes_over: TakeOver

    def __call__(self, transaction: Transaction) -> list[str]:
        """Registers. Returns the runs of earlier instances, which are free now."""
        worker, now = self.worker, transaction.now
        boot, second = boot_micros(transaction.clock)
        freed: list[str] = []
        known = (worker.worker, worker.instance)
        siblings = transaction.rows(sql.SIBLINGS, known) if self.takes_over != "none" else ()
        for instance, pid, host, mark, its_boot in siblings:
            has_died = its_boot == boot and host == worker.host and pid > 0 and is_gone(pid, mark)
            if self.takes_over == "all" or has_died:
                transaction.run(sql.END_WORKER, (now, instance))
                freed += free(transaction, instance, _ALL)
        transaction.run(sql.FORGET_WORKERS, (now - REMEMBERED // _MICROSECOND, boot, second))
        transaction.run(
            sql.REGISTER,
            (
                worker.instance,
                worker.worker,
                encoded(worker.queues),
                encoded(worker.definitions),
                worker.pid,
                worker.host,
                process_mark(worker.pid),
                micros(worker.started_at),
                now,
                boot,
                second + self.ttl // _MICROSECOND,
                worker.progress,
            ),
        )
        for workflow, version in worker.definitions:
            for (run,) in transaction.rows(sql.RECALL, (now, workflow, version)):
                transaction.hint(run)
        return freed


class Renew(msgspec.Struct, frozen=True):
    """A heartbeat as an operation."""

    instance: str
    ttl: timedelta
    progress: str
    recovery: str
    frees: int
    takes_back: bool

    def __call__(self, transaction: Transaction) -> Beat:
        """Renews the instance, then frees the runs of instances whose lease expired."""
        boot, second = boot_micros(transaction.clock)
        lease = transaction.row(sql.LEASE, (self.instance,))
        has_lapsed = lease is None or not is_live(lease, boot, second)
        expires = second + self.ttl // _MICROSECOND
        transaction.run(sql.RENEW, (boot, expires, transaction.now, self.progress, self.recovery, self.instance))
        if has_lapsed and self.takes_back:
            transaction.run(suspects_sql.TAKE_BACK, (self.instance, ""))
        freed, expiry = self._meet_others(transaction, boot, second)
        quiet_until = maybe_instant(self._quiet_until(transaction))
        return Beat(instant(transaction.now), has_lapsed, freed, maybe_instant(expiry), quiet_until)

    def _meet_others(self, transaction: Transaction, boot: str, second: int) -> tuple[int, int | None]:
        """Frees the runs of dead instances. Returns how many, and when the next lease expires."""
        freed = 0
        expiries: list[int] = []
        for (holder,) in self._holders(transaction):
            if holder == self.instance:
                continue
            lease = transaction.row(sql.LEASE, (holder,))
            if lease is not None and is_live(lease, boot, second):
                expiries.append(transaction.now + lease[1] - second)
                continue
            freed += len(free(transaction, holder, self.frees - freed))
            if transaction.row(sql.HOLDS, (holder,)) is not None:
                expiries.append(transaction.now)
        return freed, min(expiries, default=None)

    def _holders(self, transaction: Transaction) -> list[tuple[str]]:
        """The instances that hold runs. A run whose holder's name is not a text is freed, since no worker could renew
        its lease."""
        try:
            return transaction.rows(sql.HOLDERS)
        except NotText:
            for no, name in transaction.rows(raw.HELD_BY):
                if not is_text(name):
                    transaction.run(raw.FREE_ONE, (transaction.now, no))
            return transaction.rows(sql.HOLDERS)

    def _quiet_until(self, transaction: Transaction) -> int | None:
        """When the next run of its queues is due, at most one lease from now; None for an unknown instance."""
        known = transaction.row(sql.QUEUES, (self.instance,))
        if known is None:
            return None
        times = [transaction.now + self.ttl // _MICROSECOND]
        for queue in decoded_names(known[0]):
            if transaction.row(sql.IS_READY, (queue,)) is not None:
                return transaction.now
            first, has_line = transaction.row(sql.NEXT_DUE, (queue,))
            if has_line:
                return transaction.now
            times += () if first is None else (first,)
        return max(transaction.now, min(times))


class Take:
    """`Leases.take` as an operation of the writer. It remembers what it took, in case the answer is lost."""

    def __init__(self, run: str, instance: str, *, steal: bool) -> None:
        self._run = run
        self._instance = instance
        self._steal = steal
        self._taken: RunRow | None = None

    def __call__(self, transaction: Transaction) -> Taking:
        """Takes the lease with the next epoch, unless the run has ended or a live worker holds it."""
        found = transaction.row(sql.RUN_BY_ID, (self._run,))
        if found is None:
            return None
        run = run_row(found)
        before = self._taken
        if transaction.is_again and before and (run.instance, run.epoch) == (before.instance, before.epoch):
            return Taken(run)
        if run.status.is_terminal:
            return Over(run.status)
        if run.instance and not self._steal and self._is_live(transaction, run.instance):
            return HeldBy(run.worker, run.instance, self._expiry(transaction, run.instance))
        lease = transaction.row(sql.LEASE, (self._instance,))
        transaction.run(sql.TAKE, (self._instance, lease[3] if lease else "", run.no))
        self._taken = run_row(transaction.row(sql.RUN_BY_NO, (run.no,)))
        return Taken(self._taken)

    def _is_live(self, transaction: Transaction, instance: str) -> bool:
        lease = transaction.row(sql.LEASE, (instance,))
        return lease is not None and is_live(lease, *boot_micros(transaction.clock))

    def _expiry(self, transaction: Transaction, instance: str) -> datetime:
        expires = transaction.row(sql.LEASE, (instance,))[1]
        return nearest_instant(transaction.now + expires - boot_micros(transaction.clock)[1])


def release(transaction: Transaction, values: tuple[str, int, int | None, int, int]) -> bool:
    """Releases a run: note, inbox seen, until, number, epoch. Returns False if the epoch has changed or the run has
    ended."""
    note, inbox_seen, until, no, epoch = values
    found = transaction.row(sql.RELEASE, (note, inbox_seen, until, transaction.now, no, epoch))
    if found is None:
        return False
    transaction.hint(found[0])
    return True


def release_all(transaction: Transaction, instance: str) -> int:
    """Releases everything that the instance holds, and ends it."""
    runs = transaction.rows(sql.RELEASE_ALL, (transaction.now, instance))
    transaction.run(sql.END_WORKER, (transaction.now, instance))
    for (run,) in runs:
        transaction.hint(run)
    return len(runs)


def acquit(transaction: Transaction, run: int, epoch: int) -> bool:
    """See `ports.leases`."""
    return transaction.row(suspects_sql.ACQUIT, (run, epoch)) is not None


def reinstate(transaction: Transaction, run: str, instance: str, epoch: int) -> bool:
    """The instance holds the run again, unless another one claimed it since."""
    if transaction.row(sql.REINSTATE, (instance, run, epoch)) is None:
        return False
    transaction.run(suspects_sql.TAKE_BACK, (instance, run))
    return True


def lease_of(ask: Ask, clock: Clock, run: str) -> Lease | None:
    """The holder of the run, if it is alive."""
    boot, second = boot_micros(clock)
    for found in ask(sql.LEASE_OF_RUN, (run,)):
        if is_live(found, boot, second):
            worker, instance, epoch = found[3:]
            return Lease(run, worker, instance, epoch, nearest_instant(micros(clock.now()) + found[1] - second))
    return None


def free(transaction: Transaction, instance: str, limit: int) -> list[str]:
    """Frees the runs of an instance: they are available now, and their epochs stay. The death counts."""
    if not limit:
        return []
    suspects = transaction.rows(suspects_sql.SUSPECTS_HELD, (instance,))
    held = transaction.rows(suspects_sql.HELD_TWO, (instance,))
    values = (transaction.now, instance, limit, weight(suspects=len(suspects), held=len(held)))
    runs = [run for (run,) in transaction.rows(suspects_sql.FREE_SUSPECTS, values)] if suspects else []
    left = limit if limit == _ALL else limit - len(runs)
    if left:
        runs += [run for (run,) in transaction.rows(suspects_sql.FREE, (transaction.now, instance, left))]
    for run in runs:
        transaction.hint(run)
    return runs
