"""Unique values in memory: who has one, and how a run takes it from another. The caller holds the lock."""

from __future__ import annotations

from datetime import datetime

import msgspec

from holdfast.adapters.memory import gate
from holdfast.adapters.memory.messages import put, send
from holdfast.adapters.memory.tables import Adoption, Tables
from holdfast.adapters.memory.transaction import Transaction
from holdfast.core import events as e
from holdfast.core.messages import predecessor_message
from holdfast.ports.inbox import Message, message
from holdfast.ports.runs import Existing, Joined, NewRun, RunRow


def holder_of(tables: Tables, new: NewRun) -> RunRow | None:
    """The open run that has the value of the new one."""
    if not new.unique:
        return None
    run = tables.runs.get(tables.uniques.get((new.started.workflow, new.unique), 0))
    return run if run is not None and run.ended_at is None else None


def met(transaction: Transaction, holder: RunRow, new: NewRun) -> Joined | Existing | None:
    """The outcome of a start whose value that run has; None: a new run is made anyway."""
    if gives_way(holder, new):
        return None
    if join(transaction, holder, new):
        return Joined(transaction.tables.runs[holder.no])
    return None if new.joins is not None and new.joins.makes_another else Existing(holder, by="unique")


def gives_way(holder: RunRow, new: NewRun) -> bool:
    """Whether the new run may take the value from that one, which stands as the caller saw it."""
    seen = new.replaces
    return seen is not None and (seen.run, seen.is_idle) == (holder.id, holder.is_idle)


def join(transaction: Transaction, holder: RunRow, new: NewRun) -> bool:
    """Gives the input of the new run to the one that has its value; False if that takes no more."""
    tables, joins, now = transaction.tables, new.joins, transaction.now
    value = new.started.workflow, new.unique
    gathering = tables.gathering.get(value)
    if joins is None or gathering is None or not holder.is_idle or holder.version != new.started.version:
        return False
    if joins.message in tables.inbox[holder.no]:
        return True
    room, latest = gathering
    if room == 0:
        return False
    given = Message(run=holder.id, id=joins.message, kind="input", body=joins.body, blobs=new.blobs,
        references=new.references)  # fmt: skip
    due = holder.available_at
    if room is not None:
        tables.gathering[value] = room - 1, latest
        due = due if due is None or room > 1 else min(due, now)
    if due is not None and due > now and joins.begins_at is not None:
        due = max(due, joins.begins_at)
        due = due if latest is None else min(due, latest)
    put(transaction, holder, given)
    gate.line_up(tables, _due(tables, holder.no, due), now)
    if due is not None and due <= now:
        transaction.hints[holder.id] = None
    return True


def _due(tables: Tables, no: int, at: datetime | None) -> RunRow:
    tables.runs[no] = run = msgspec.structs.replace(tables.runs[no], available_at=at)
    return run


def gather(tables: Tables, new: NewRun) -> None:
    """Whether the run just made, which has the value, takes inputs of others."""
    value = new.started.workflow, new.unique
    if new.joins is None:
        tables.gathering.pop(value, None)
    else:
        tables.gathering[value] = new.joins.room, new.started.latest


def succeed(transaction: Transaction, run: RunRow, new: NewRun, holder: RunRow | None) -> RunRow:
    """The run has the value now: the one before is told, and those that must end first tell it of their ends."""
    tables = transaction.tables
    if holder is not None and new.replaces is not None and new.replaces.cancel is not None:
        send(transaction, new.replaces.cancel)
    is_early = False
    for name in new.started.after:
        before, told = tables.run(name), predecessor_message(name)
        if before is None or before.status.is_terminal:
            send(transaction, message(run.id, told, "child", e.PredecessorEnded(run=name)))
        else:
            tables.adoptions.setdefault(before.no, []).append(Adoption(run.id, "", told))
            is_early = True
    if is_early:
        _due(tables, run.no, None)
    return tables.runs[run.no]
