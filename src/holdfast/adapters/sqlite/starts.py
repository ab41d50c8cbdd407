"""Starting a run: its row, the first row of its journal and, if a worker of this process begins it, its first turn."""

from __future__ import annotations

import msgspec

from holdfast.adapters.sql.rows import run_row
from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite import uniques
from holdfast.adapters.sqlite.blobs import are_stored, keep_blobs
from holdfast.adapters.sqlite.creation import insert_run
from holdfast.adapters.sqlite.messages import send
from holdfast.adapters.sqlite.transaction import Transaction
from holdfast.adapters.sqlite.turns import bring, commit_turn
from holdfast.core.turn import Row
from holdfast.ports.journal import Commit, Committed
from holdfast.ports.row import row_after
from holdfast.ports.runs import Creation, Existing, Joined, Lacking, Made, NewRun, RunRow


class CreateRun(msgspec.Struct, frozen=True):
    """`Runs.create` as an operation of the writer."""

    new: NewRun
    key_since: int
    instance: str
    worker: str
    first: Commit | None = None

    def __call__(self, transaction: Transaction) -> Creation:
        """Makes the run unless its id, key or unique value is in use or a blob it needs is gone."""
        new, started = self.new, self.new.started
        if started.key:
            found = transaction.row(sql.RUN_BY_KEY, (started.workflow, started.key, self.key_since))
            if found is not None and found[1] != new.row.run and not _is_known(transaction, new.row.run):
                return Existing(run_row(found), by="key")
        holder = uniques.holder_of(transaction, new) if new.unique else None
        is_taken = holder is not None and holder.id != new.row.run and not uniques.gives_way(holder, new)
        if holder is not None and is_taken and not _is_known(transaction, new.row.run):
            if uniques.join(transaction, holder, new):
                return Joined(run_row(transaction.row(sql.RUN_BY_ID, (holder.id,))))
            if new.joins is None or not new.joins.makes_another:
                return Existing(holder, by="unique")
        if new.needs and not are_stored(transaction, new.needs) and not _is_known(transaction, new.row.run):
            return Lacking()
        first = self.first
        is_plain = first is not None and row_after(first).keeps_lease
        instance = self.instance if new.replaces is None else ""
        made = insert_run(transaction, new, instance, self.worker, first if is_plain else None)
        if made is not None and new.unique:
            made = uniques.hold(transaction, made, new, holder)
        if made is not None and new.message is not None:
            send(transaction, new.message)
        if made is not None and first is not None and is_plain and made.instance:
            return self._brought(transaction, made, first)
        if made is not None:
            return self._begun(transaction, made)
        run = run_row(transaction.row(sql.RUN_BY_ID, (new.row.run,)))
        if transaction.is_again and _is_first_row(transaction, run.no, new.row):
            return self._begun(transaction, run)  # made by our earlier try, whose answer was lost
        return Existing(run)

    def _brought(self, transaction: Transaction, run: RunRow, first: Commit) -> Made:
        """Writes what else the turn brings. The row is already as the turn leaves it."""
        seq = transaction.connection.last_insert_rowid()
        if first.is_plain:
            return Made(run, Committed(seq, 0))
        commit = msgspec.structs.replace(first, no=run.no)
        if commit.blobs:
            keep_blobs(transaction, commit.blobs.items())
        return Made(run, Committed(seq, bring(transaction, commit, 0)))

    def _begun(self, transaction: Transaction, run: RunRow) -> Made:
        if self.first is None or run.epoch != self.first.row.epoch:
            return Made(run)
        verdict = commit_turn(transaction, msgspec.structs.replace(self.first, no=run.no))
        return Made(run, verdict if isinstance(verdict, Committed) else None)


def _is_known(transaction: Transaction, run: str) -> bool:
    return transaction.row(sql.NO_OF_RUN, (run,)) is not None


def _is_first_row(transaction: Transaction, no: int, row: Row) -> bool:
    stored = transaction.row(sql.STORED_TURN, (no, row.ordinal))
    return stored is not None and stored[1:] == (row.epoch, row.checksum)
