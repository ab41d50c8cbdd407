"""Commit: one turn of one run, and everything that becomes visible with it."""

from __future__ import annotations

from holdfast.adapters.memory import answers, blobs, creation, gate, messages
from holdfast.adapters.memory.stream_rows import add_parts
from holdfast.adapters.memory.tables import Watch
from holdfast.adapters.memory.transaction import Transaction
from holdfast.core.checksums import shown_checksum
from holdfast.core.mailbox import apply_attributes
from holdfast.core.turn import instant
from holdfast.ports.contents import StoredValue
from holdfast.ports.journal import Commit, Committed, Fenced, Unread, Verdict
from holdfast.ports.parts import STREAMS
from holdfast.ports.row import moved


def commit_turn(transaction: Transaction, commit: Commit) -> Verdict:
    """Commits one turn as a whole, or returns a verdict that says why nothing was written."""
    run, row = transaction.tables.runs.get(commit.no), commit.row
    if run is None:
        return Fenced(0, 0)
    stored = creation.stored_row(transaction, run.no, row.ordinal)
    if stored is not None and (stored.epoch, stored.checksum) == (row.epoch, row.checksum):
        return Committed(stored.seq, run.inbox_last)
    if (run.epoch, run.next_ordinal) != (row.epoch, row.ordinal) or run.ended_at is not None:
        return Fenced(run.epoch, run.next_ordinal)
    before = creation.stored_row(transaction, run.no, row.ordinal - 1)
    if (b"" if before is None else before.checksum) != commit.after:
        return Fenced(run.epoch, run.next_ordinal)
    after = moved(run, commit, transaction.now)
    if after is None:
        return Unread(run.inbox_last)
    blobs.keep_blobs(transaction, commit.blobs.items())
    seq = creation.append_row(transaction, run.no, row, commit.references)
    transaction.tables.runs[run.no] = after
    gate.give_place_back(transaction.tables, run.no, transaction.now)
    if commit.is_consuming:
        _consume(transaction, commit)
    for child in commit.children:
        creation.start_child(transaction, child, row.ordinal)
    for message in commit.messages:
        messages.send_with_turn(transaction, run.no, message)
    for publication in commit.publications:
        messages.publish(transaction, publication)
    _show(transaction, commit)
    if commit.parts or commit.spans:
        transaction.hints[STREAMS] = None
        add_parts(transaction, commit)
    answers.settle(transaction, run, commit.answers)
    if commit.is_terminal:
        creation.tell_adopters(transaction, run, row)
    after = transaction.tables.runs[run.no]  # what the turn brought may have woken it
    if commit.is_terminal or (commit.park is not None and after.available_at is not None):
        transaction.hints[run.id] = None
    return Committed(seq, after.inbox_last)


def _consume(transaction: Transaction, commit: Commit) -> None:
    for letter in transaction.tables.inbox[commit.no].values():
        if letter.no <= commit.inbox_seen and not letter.consumed_ordinal:
            letter.consumed_ordinal = commit.row.ordinal


def _show(transaction: Transaction, commit: Commit) -> None:
    tables = transaction.tables
    if commit.attributes:
        attributes = dict(tables.runs[commit.no].attributes)
        apply_attributes(attributes, commit.attributes)
        transaction.change(commit.no, attributes=attributes)
    for exposure in commit.exposed:
        name, value, blob = exposure.name, exposure.value, exposure.blob
        stored = StoredValue(name, value, blob, shown_checksum(commit.row.run, name, value, blob))
        tables.exposed.setdefault(commit.no, {})[name] = stored
        blobs.refer(transaction, commit.no, ("value", name), exposure.references)
    over = {*commit.unwatch, *(key for _, key in commit.watch)}
    tables.watches = [watch for watch in tables.watches if watch.no != commit.no or watch.key not in over]
    since = instant(commit.row.at)
    tables.watches += [Watch(commit.no, key, topic, since) for topic, key in commit.watch]
