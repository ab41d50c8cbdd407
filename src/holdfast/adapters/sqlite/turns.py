"""Commit: one turn of one run, and everything that becomes visible with it.

The common turn is two statements: the fenced update of the run and the insert of its row. If the update for common
turns does not apply, the one for all turns is tried. Everything else costs only the turns that bring it. Every update
is the fence: it applies only if the run has this epoch and ordinal, still ends with the row that the turn follows, and
has not ended. Otherwise nothing is written, and the run's row says why.
"""

from __future__ import annotations

from typing import Any

from holdfast.adapters.sql.rows import due_at, ready_at
from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite import turn_statements as turn_sql
from holdfast.adapters.sqlite.answers import settle
from holdfast.adapters.sqlite.blobs import forget, keep_blobs, refer
from holdfast.adapters.sqlite.connections import fetch, run
from holdfast.adapters.sqlite.creation import start_child, tell_adopters
from holdfast.adapters.sqlite.messages import publish, send_with_turn
from holdfast.adapters.sqlite.stream_rows import add_parts
from holdfast.adapters.sqlite.transaction import Transaction
from holdfast.core.checksums import shown_checksum
from holdfast.core.turn import micros
from holdfast.ports.journal import Commit, Committed, Fenced, Unread, Verdict
from holdfast.ports.row import RowAfter, row_after


def commit_turn(transaction: Transaction, commit: Commit) -> Verdict:
    """Commits the whole turn, or returns a verdict that says why nothing was written."""
    found = _move_run(transaction, commit)
    if found is None:
        return _refusal(transaction, commit)
    if commit.blobs:
        keep_blobs(transaction, commit.blobs.items())
    connection, row = transaction.connection, commit.row
    run(connection, sql.APPEND, (commit.no, row.ordinal, row.epoch, row.at, row.format, row.checksum, row.body))
    seq = connection.last_insert_rowid()
    inbox_last = found[0] if commit.is_plain else bring(transaction, commit, found[0])
    if commit.is_terminal:
        _, has_watches, is_adopted = found
        if has_watches or commit.watch:
            transaction.run(sql.UNWATCH_ALL, (commit.no,))
        if is_adopted:
            tell_adopters(transaction, commit.no, commit.row)
    return Committed(seq, inbox_last)


def bring(transaction: Transaction, commit: Commit, inbox_last: int) -> int:
    """Writes what a turn brings besides its row; its blobs are stored already. Returns the run's `inbox_last`
    afterwards."""
    if commit.references:
        refer(transaction, commit.no, ("row", commit.row.ordinal, ""), commit.references)
    if commit.is_consuming:
        transaction.run(sql.CONSUME, (commit.row.ordinal, commit.no, commit.inbox_seen))
    if commit.children or commit.messages or commit.publications:
        inbox_last = _reach_out(transaction, commit)
    if commit.exposed or commit.unwatch or commit.watch:
        _show(transaction, commit)
    if commit.parts or commit.spans:
        add_parts(transaction, commit)
    if commit.attributes:
        _attribute(transaction, commit)
    if commit.answers:
        settle(transaction, commit.row.run, commit.no, commit.answers)
    return inbox_last


def _move_run(transaction: Transaction, commit: Commit) -> Any:
    """Runs the fenced update. Returns the run's `inbox_last` (at an end, also what remains to be done), or None if the
    update did not apply."""
    connection, row, facts = transaction.connection, commit.row, commit.projection
    values: tuple[Any, ...] = (
        facts.doing,
        row.at,
        commit.inbox_seen if commit.is_consuming else 0,
        commit.no,
        row.epoch,
        row.ordinal,
        facts.status,
        facts.workflow,
        facts.version,
        None if facts.started_at is None else micros(facts.started_at),
        commit.after,
    )
    after = row_after(commit)
    if after.keeps_lease and after.clears and after.is_open and row.ordinal > 2:  # a worker's first turn changes more
        run(connection, turn_sql.ADVANCE, (*values, commit.inbox_seen))
        if connection.changes():
            return (commit.inbox_seen,)
    elif commit.is_terminal and facts.started_at is not None:
        run(connection, turn_sql.END, (*values, commit.inbox_seen))
        if connection.changes():
            transaction.hint(row.run)
            return commit.inbox_seen, False, False
    if after.keeps_lease:
        rows = fetch(connection, turn_sql.MOVE, (*values, None, after.clears, after.is_open))
        return rows[0] if rows else None
    left = _ENDED if commit.is_terminal else _left(after, transaction.now)
    rows = fetch(
        connection, turn_sql.LEAVE, (*values, row.at if commit.is_terminal else None, commit.inbox_seen, *left)
    )
    if not rows:
        return None
    if commit.is_terminal or after.read != "never" or rows[0][0] > commit.inbox_seen:
        transaction.hint(row.run)
    return rows[0]


_ENDED = (None, None, None, None, False, True)
"""What `_left` is for an end, which is never due, and is refused as unread."""


def _left(after: RowAfter, now: int) -> tuple[Any, ...]:
    """The last values of `LEAVE`: both outcomes of the rule, in stored form."""
    read, unread = due_at(after.read, now), due_at(after.unread, now)
    return (
        read,
        ready_at(read, now) if after.is_open else None,
        unread,
        ready_at(unread, now) if after.is_open else None,
        after.unread is not None,
        False,
    )


def _refusal(transaction: Transaction, commit: Commit) -> Verdict:
    """Why the update found nothing; or that this very turn is already stored."""
    row = commit.row
    run = transaction.row(sql.REFUSAL, (commit.no,))
    if run is None:
        return Fenced(0, 0)
    epoch, next_ordinal, inbox_last, ended_at, last = run
    if (epoch, next_ordinal) == (row.epoch, row.ordinal):
        is_unread = ended_at is None and last == commit.after
        return Unread(inbox_last) if is_unread else Fenced(epoch, next_ordinal)
    stored = transaction.row(sql.STORED_TURN, (commit.no, row.ordinal))
    if stored is not None and stored[1:] == (row.epoch, row.checksum):
        return Committed(stored[0], inbox_last)
    return Fenced(epoch, next_ordinal)


def _reach_out(transaction: Transaction, commit: Commit) -> int:
    """Starts children and sends messages. Returns the run's `inbox_last` afterwards, since it may write to itself."""
    for child in commit.children:
        start_child(transaction, child, commit.row.ordinal)
    for message in commit.messages:
        send_with_turn(transaction, commit, message)
    for publication in commit.publications:
        publish(transaction, publication)
    return int(transaction.row(sql.FENCE, (commit.no,))[2])


def _attribute(transaction: Transaction, commit: Commit) -> None:
    for name, value in commit.attributes.items():
        if value is None:
            transaction.run(sql.DROP_ATTRIBUTE, (commit.no, name))
        else:
            transaction.run(sql.SET_ATTRIBUTE, (commit.no, name, value))


def _show(transaction: Transaction, commit: Commit) -> None:
    for exposure in commit.exposed:
        shown = (exposure.name, exposure.value, exposure.blob)
        checksum = shown_checksum(commit.row.run, *shown)
        transaction.run(sql.EXPOSE, (commit.no, *shown, checksum, bool(exposure.references)))
        if exposure.references:  # of an earlier value that referred to blobs when this does not: see `Compact`
            forget(transaction, commit.no, ("value", 0, exposure.name))
            refer(transaction, commit.no, ("value", 0, exposure.name), exposure.references)
    for key in commit.unwatch:
        transaction.run(sql.UNWATCH, (commit.no, key))
    for topic, key in commit.watch:
        transaction.run(sql.UNWATCH, (commit.no, key))
        transaction.run(sql.WATCH, (topic, commit.no, key, commit.row.at))
