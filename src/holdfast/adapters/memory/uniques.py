"""Unique values in memory: who has one, and how a run takes it from another. The caller holds the lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.adapters.memory.tables import Adoption, Tables
from holdfast.core import events as e
from holdfast.core.messages import predecessor_message
from holdfast.ports.inbox import message
from holdfast.ports.runs import NewRun, RunRow

if TYPE_CHECKING:
    from holdfast.adapters.memory.transaction import Transaction


def holder_of(tables: Tables, new: NewRun) -> RunRow | None:
    """The open run that has the value of the new one."""
    if not new.unique:
        return None
    run = tables.runs.get(tables.uniques.get((new.started.workflow, new.unique), 0))
    return run if run is not None and run.ended_at is None else None


def gives_way(holder: RunRow, new: NewRun) -> bool:
    """Whether the new run may take the value from that one, which stands as the caller saw it."""
    seen = new.replaces
    return seen is not None and (seen.run, seen.is_idle) == (holder.id, holder.is_idle)


def succeed(transaction: Transaction, run: RunRow, new: NewRun, holder: RunRow | None) -> RunRow:
    """The run has the value now: the one before is told, and those that must end first tell it of their ends."""
    tables = transaction.tables
    if holder is not None and new.replaces is not None and new.replaces.cancel is not None:
        transaction.send(new.replaces.cancel)
    is_early = False
    for name in new.started.after:
        before, told = tables.run(name), predecessor_message(name)
        if before is None or before.status.is_terminal:
            transaction.send(message(run.id, told, "child", e.PredecessorEnded(run=name)))
        else:
            tables.adoptions.setdefault(before.no, []).append(Adoption(run.id, "", told))
            is_early = True
    if is_early:
        transaction.put_off(run.no)
    return tables.runs[run.no]
