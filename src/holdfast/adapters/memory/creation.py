"""Rows of new runs, and children whose id is in use."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holdfast.adapters.memory import blobs, gate, messages, uniques
from holdfast.adapters.memory.tables import Adoption
from holdfast.adapters.memory.transaction import Transaction
from holdfast.core import events as e
from holdfast.core.messages import ended_by, id_in_use, told_at_end
from holdfast.core.turn import Row
from holdfast.ports.admission import may_begin
from holdfast.ports.inbox import message as message_of
from holdfast.ports.runs import NewRun, RunRow, row_of


def insert_run(transaction: Transaction, new: NewRun, instance: str = "", worker: str = "") -> RunRow:
    """Adds the run's row and the first row of its journal."""
    tables, started = transaction.tables, new.started
    no, available_at = tables.last_no + 1, started.available_at or transaction.now
    run = row_of(new, no, available_at)
    share = gate.share_at_gate(tables, new)
    if instance and not share and may_begin(run, transaction.now):
        run = row_of(new, no, available_at, instance, worker)
    tables.last_no = run.no
    tables.numbers[run.id] = run.no
    tables.runs[run.no] = run
    tables.rows[run.no] = []
    tables.inbox[run.no] = {}
    gate.wait(tables, run, share, transaction.now)
    if new.unique:
        tables.uniques[started.workflow, new.unique] = run.no
        uniques.gather(tables, new)
    if started.keep is not None:
        tables.keep[run.no] = started.keep
    blobs.keep_blobs(transaction, new.blobs)
    append_row(transaction, run.no, new.row, new.references)
    transaction.hints[run.id] = None
    return run


def append_row(transaction: Transaction, no: int, row: Row, references: Iterable[str]) -> int:
    """Appends the row to the journal of the run. Returns its seq."""
    transaction.tables.seq += 1
    blobs.refer(transaction, no, ("row", row.ordinal), references)
    transaction.tables.rows[no].append(msgspec.structs.replace(row, seq=transaction.tables.seq))
    return transaction.tables.seq


def stored_row(transaction: Transaction, no: int, ordinal: int) -> Row | None:
    """The row of that ordinal. Ordinals have no gaps after the first row that is left."""
    rows = transaction.tables.rows.get(no, [])
    index = ordinal - rows[0].ordinal if rows else -1
    return rows[index] if 0 <= index < len(rows) else None


def start_child(transaction: Transaction, new: NewRun, ordinal: int) -> None:
    """Makes the child, or adopts the open run that has its id, or tells the parent why neither is possible."""
    run = transaction.tables.run(new.row.run)
    if run is None:
        insert_run(transaction, new)
        return
    if new.watcher is None:
        return
    watcher, key = new.watcher
    # The ordinal makes it another message when a restarted run starts the same child again.
    adoption = Adoption(watcher, key, f"ended:{key}:{ordinal}")
    if run.workflow != new.started.workflow:
        tell(transaction, adoption, id_in_use(run.id, run.workflow, new.started.workflow, key))
    elif run.status.is_terminal:
        tell(transaction, adoption, ended_by(transaction.tables.rows[run.no][-1], key))
    elif (run.parent, run.parent_key) != new.watcher:  # a run tells its own parent without being asked
        transaction.tables.adoptions.setdefault(run.no, []).append(adoption)


def tell_adopters(transaction: Transaction, run: RunRow, row: Row) -> None:
    """Ends the waits of a run that has ended, and tells the runs that wait for its end."""
    transaction.tables.watches = [watch for watch in transaction.tables.watches if watch.no != run.no]
    for adoption in transaction.tables.adoptions.pop(run.no, []):
        tell(transaction, adoption, told_at_end(row, adoption.key))


def tell(transaction: Transaction, adoption: Adoption, ended: e.ChildEnded | e.PredecessorEnded) -> None:
    """Sends the end of a run to one that waits for it."""
    messages.send(transaction, message_of(adoption.run, adoption.message, "child", ended))
