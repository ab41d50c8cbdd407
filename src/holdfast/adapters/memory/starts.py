"""Starting a run: its row, the first row of its journal and, if a worker of this process begins it, its first turn."""

from __future__ import annotations

from datetime import datetime

import msgspec

from holdfast.adapters.memory import creation, messages, turns, uniques
from holdfast.adapters.memory.transaction import Transaction
from holdfast.ports.journal import Commit, Committed
from holdfast.ports.runs import Creation, Existing, Lacking, Made, NewRun


def create_run(
    transaction: Transaction, new: NewRun, key_since: datetime, instance: str, worker: str, first: Commit | None = None
) -> Creation:
    """Makes the run, unless its id, key or unique value is in use or a blob it needs is gone."""
    run = transaction.tables.run(new.row.run)
    if run is not None:
        return Existing(run)
    key, workflow = new.started.key, new.started.workflow
    for run in transaction.tables.runs.values() if key else ():
        if run.key == key and run.workflow == workflow and run.created_at > key_since:
            return Existing(run, by="key")
    holder = uniques.holder_of(transaction.tables, new)
    if holder is not None and (met := uniques.met(transaction, holder, new)) is not None:
        return met
    if not transaction.tables.blobs.keys() >= set(new.needs):
        return Lacking()
    made = creation.insert_run(transaction, new, instance if new.replaces is None else "", worker)
    if new.replaces is not None:
        made = uniques.succeed(transaction, made, new, holder)
    if new.message is not None:
        messages.send(transaction, new.message)
    if first is None or not made.instance:
        return Made(made)
    verdict = turns.commit_turn(transaction, msgspec.structs.replace(first, no=made.no))
    assert isinstance(verdict, Committed), verdict
    return Made(made, verdict)
