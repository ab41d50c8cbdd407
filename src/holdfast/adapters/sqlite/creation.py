"""Rows of new runs, and children whose id is in use."""

from __future__ import annotations

from holdfast.adapters.sql.rows import run_row
from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite.blobs import keep_blobs, refer, row_references
from holdfast.adapters.sqlite.connections import run
from holdfast.adapters.sqlite.messages import send
from holdfast.adapters.sqlite.queue_statements import IS_GATED
from holdfast.adapters.sqlite.transaction import Transaction
from holdfast.core import events as e
from holdfast.core.instants import span_micros
from holdfast.core.messages import encode_event, ended_by, id_in_use, told_at_end
from holdfast.core.status import Status
from holdfast.core.turn import Row, instant, micros
from holdfast.ports.inbox import Message
from holdfast.ports.journal import Commit
from holdfast.ports.row import read_to, row_after
from holdfast.ports.runs import NewRun, RunRow, row_of


def insert_run(
    transaction: Transaction, new: NewRun, instance: str = "", worker: str = "", first: Commit | None = None
) -> RunRow | None:
    """Inserts the run's row and the first row of its journal. Returns None, having written nothing, if the id is in
    use. `first` is a turn that keeps the lease: a run that is made already claimed gets its row as that turn leaves it.
    The caller writes what else the turn brings."""
    row, started = new.row, new.started
    available_at = transaction.now if started.available_at is None else micros(started.available_at)
    is_due = available_at <= row.at or available_at <= transaction.now  # most are, and need no look at the clock
    is_claimed = is_due and bool(instance)
    epoch = int(is_claimed)
    holder, held_by = (instance, worker) if is_claimed else ("", "")
    first = first if is_claimed else None
    facts = None if first is None else first.projection
    connection = transaction.connection
    run(
        connection,
        sql.INSERT_RUN,
        (
            row.run,
            epoch,
            row.ordinal + (1 if facts is None else 2),
            Status.PENDING if facts is None else facts.status,
            started.workflow if facts is None else facts.workflow,
            started.version if facts is None else facts.version,
            None if facts is None or facts.started_at is None else micros(facts.started_at),
            0 if first is None else read_to(first),
            0 if first is not None and row_after(first).clears else epoch,
            holder,
            available_at,
            None if is_claimed else int(is_due),
            started.queue,
            started.priority,
            held_by,
            started.key,
            new.input_hash,
            started.parent,
            started.parent_key,
            "" if started.root == row.run else started.root,
            started.code,
            started.codec,
            None if started.deadline is None else micros(started.deadline),
            row.at,
            row.at if first is None else first.row.at,
            None if started.keep is None else span_micros(started.keep),
            new.doing if facts is None else facts.doing,
            is_claimed,
            started.share,
            new.rides,
        ),
    )
    if not connection.changes():
        return insert_run(transaction, new) if is_claimed and _waits(transaction, new) else None
    no = connection.last_insert_rowid()
    _insert_what_it_brings(transaction, no, new, first)
    if not is_claimed:
        transaction.hint(row.run)
    return row_of(new, no, started.available_at or instant(available_at), holder, held_by)


def _waits(transaction: Transaction, new: NewRun) -> bool:
    """Whether the run waits at the gate of its queue before it begins."""
    started = new.started
    if new.rides:
        return False
    return bool(started.share) or transaction.row(IS_GATED, (started.queue,)) is not None


def _insert_what_it_brings(transaction: Transaction, no: int, new: NewRun, first: Commit | None) -> None:
    """Inserts the run's blobs, references and attributes, and its journal so far."""
    row = new.row
    if new.blobs:
        keep_blobs(transaction, new.blobs)
    if new.references:
        refer(transaction, no, ("row", row.ordinal, ""), new.references)
    for name, value in new.started.attributes.items():
        transaction.run(sql.INSERT_ATTRIBUTE, (no, name, value))
    if first is None:  # last: its number is that of the turn
        run(transaction.connection, sql.APPEND, stored_row(no, row))
    else:
        run(transaction.connection, sql.APPEND_TWO, (*stored_row(no, row), *stored_row(no, first.row)))


def stored_row(no: int, row: Row) -> tuple[int, int, int, int, int, bytes, bytes]:
    """The values of `APPEND`."""
    return no, row.ordinal, row.epoch, row.at, row.format, row.checksum, row.body


def start_child(transaction: Transaction, new: NewRun, ordinal: int) -> None:
    """Makes the child of a turn. A run that exists is adopted: the parent is told of its end."""
    if insert_run(transaction, new) is not None or new.watcher is None:
        return
    watcher, key = new.watcher
    made = run_row(transaction.row(sql.RUN_BY_ID, (new.row.run,)))
    # The ordinal makes it another message when a restarted run starts the same child again.
    message = f"ended:{key}:{ordinal}"
    if made.workflow != new.started.workflow:
        tell(transaction, watcher, message, id_in_use(made.id, made.workflow, new.started.workflow, key))
    elif made.status.is_terminal:
        last = transaction.row(sql.LAST_TURN, (made.no,))
        end = Row(made.id, *last)
        tell(transaction, watcher, message, ended_by(end, key), row_references(transaction, made.no, end.ordinal))
    elif (made.parent, made.parent_key) != new.watcher:  # a run tells its own parent without being asked
        transaction.run(sql.ADOPT, (made.no, watcher, key, message))


def tell_adopters(transaction: Transaction, no: int, row: Row) -> None:
    """Tells the runs that adopted this run that it ended with this row."""
    adoptions = transaction.rows(sql.ADOPTIONS, (no,))
    for watcher, key, message in adoptions:
        references = row_references(transaction, no, row.ordinal) if key else ()
        tell(transaction, watcher, message, told_at_end(row, key), references)
    if adoptions:
        transaction.run(sql.FORGET_ADOPTIONS, (no,))


def tell(
    transaction: Transaction,
    to: str,
    message: str,
    ended: e.ChildEnded | e.PredecessorEnded,
    references: tuple[str, ...] = (),
) -> None:
    """Sends the end of a run; dropped if no run is left to hear it."""
    send(transaction, Message(run=to, id=message, kind="child", body=encode_event(ended), references=references))
