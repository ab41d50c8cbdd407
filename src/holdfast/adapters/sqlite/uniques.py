"""Unique values: who has one, and how a run takes it from another."""

from __future__ import annotations

from holdfast.adapters.sql.rows import maybe_micros, run_row, status_of
from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite.blobs import keep_blobs, refer
from holdfast.adapters.sqlite.messages import send
from holdfast.adapters.sqlite.transaction import Transaction
from holdfast.adapters.sqlite.unique_statements import (
    GATHERING,
    GIVE,
    HOLD_UNIQUE,
    PUT_OFF,
    RUN_BY_UNIQUE,
    TAKE_ROOM,
)
from holdfast.core import events as e
from holdfast.core.checksums import message_checksum
from holdfast.core.messages import predecessor_message
from holdfast.ports.inbox import message
from holdfast.ports.runs import NewRun, RunRow


def holder_of(transaction: Transaction, new: NewRun) -> RunRow | None:
    """The open run that has the value of the new one."""
    found = transaction.row(RUN_BY_UNIQUE, (new.started.workflow, new.unique))
    return None if found is None else run_row(found)


def gives_way(holder: RunRow, new: NewRun) -> bool:
    """Whether the new run may take the value from that one, which stands as the caller saw it."""
    seen = new.replaces
    return seen is not None and (seen.run, seen.is_idle) == (holder.id, holder.is_idle)


def join(transaction: Transaction, holder: RunRow, new: NewRun) -> bool:
    """Gives the input of the new run to the one that has its value; False if that takes no more."""
    joins, value = new.joins, (new.started.workflow, new.unique)
    if joins is None or not holder.is_idle or holder.version != new.started.version:
        return False
    gathering = transaction.row(GATHERING, value)
    if gathering is None:
        return False
    if transaction.row(sql.HAS_MESSAGE, (holder.no, joins.message)) is not None:
        return True
    room, latest = gathering
    if room == 0:
        return False
    number, now = holder.inbox_last + 1, transaction.now
    checksum = message_checksum(holder.id, joins.message, "input", joins.body)
    transaction.run(sql.DELIVER, (holder.no, number, joins.message, "input", joins.body, now, checksum))
    transaction.run(GIVE, (holder.no, now, maybe_micros(joins.begins_at), latest, room == 1))
    transaction.run(TAKE_ROOM, value)
    keep_blobs(transaction, new.blobs)
    refer(transaction, holder.no, ("message", number, ""), new.references)
    if room == 1:
        transaction.hint(holder.id)
    return True


def hold(transaction: Transaction, run: RunRow, new: NewRun, holder: RunRow | None) -> RunRow:
    """The run has the value from now on: the one before is told, and those that must end first tell it of their
    ends."""
    started, joins = new.started, new.joins
    room = None if joins is None else -1 if joins.room is None else joins.room
    transaction.run(HOLD_UNIQUE, (started.workflow, new.unique, run.no, room, maybe_micros(started.latest)))
    if new.replaces is None:
        return run
    if holder is not None and new.replaces.cancel is not None:
        send(transaction, new.replaces.cancel)
    is_early = False
    for name in new.started.after:
        before, told = transaction.row(sql.TARGET, (name,)), predecessor_message(name)
        if before is None or status_of(before[1]).is_terminal:
            send(transaction, message(run.id, told, "child", e.PredecessorEnded(run=name)))
        else:
            transaction.run(sql.ADOPT, (before[0], run.id, "", told))
            is_early = True
    if is_early:
        transaction.run(PUT_OFF, (run.no,))
    return run_row(transaction.row(sql.RUN_BY_ID, (run.id,)))
