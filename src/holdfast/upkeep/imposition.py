"""Writes an event without the run's holder: takes the lease (epoch + 1), appends the event, releases the lease. The
earlier holder is fenced from then on."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import msgspec

from holdfast.core import events as e
from holdfast.core.fold import fold
from holdfast.core.run import Run
from holdfast.core.status import Status
from holdfast.core.turn import decode_rows
from holdfast.errors import CorruptJournal, RunFinished, RunNotFound
from holdfast.ports.journal import Committed, Park, sole_verdict
from holdfast.ports.leases import Taken
from holdfast.ports.runs import RunRow
from holdfast.ports.store import Store
from holdfast.turn.commit import finish
from holdfast.turn.draft import Draft
from holdfast.turn.history import run_of_row
from holdfast.turn.settlement import at_end

TRIES = 5
_OPERATOR = "operator-"


def is_operator(instance: str) -> bool:
    """Whether a run is held for a moment by an operator's process, which writes without a worker. No row of `workers`
    names it; if it dies meanwhile, the next heartbeat of a worker frees the run."""
    return instance.startswith(_OPERATOR)


async def kill(store: Store, run_id: str, *, reason: str, actor: str) -> bool:
    """Ends the run at once, even if another worker holds it, and lists what was not undone. Returns False if it has
    ended."""

    def end(run: Run) -> list[e.AnyEvent]:
        left = tuple(step.key for step in run.in_flight)
        undone = tuple(run.undoable)
        return [e.Cancelled(reason=reason, actor=actor, left=left, undone=undone, imposed=True)]

    return await impose(store, run_id, end, steal=True)


async def impose(
    store: Store, run_id: str, events: Callable[[Run], list[e.AnyEvent]], *, steal: bool, only: Status | None = None
) -> bool:
    """Takes the lease, appends, releases it. Returns False if a live worker holds it, it has ended, or it has
    changed."""
    for _ in range(TRIES):
        taken = await store.take(run_id, instance=f"{_OPERATOR}{secrets.token_hex(8)}", steal=steal)
        if taken is None:
            raise RunNotFound(f"no run {run_id!r} in {store.url}")
        if not isinstance(taken, Taken):
            return False
        row = taken.run
        run = await _fold(store, row)
        if run.status.is_terminal:  # its row said otherwise
            await store.release(row.no, epoch=row.epoch, until=None, inbox_seen=row.inbox_last)
            raise RunFinished(
                f"run {run_id} has {run.status.value} by its journal, and its row is damaged: nothing was changed. "
                f"Look at it: holdfast verify {run_id}",
                run_id=run_id,
                status=run.status.value,
            )
        if only is not None and run.status is not only:
            await store.release(row.no, epoch=row.epoch, until=row.available_at, inbox_seen=row.inbox_read)
            return False
        outputs = events(run)
        at = max(store.clock.now(), run.updated_at or store.clock.now())
        is_end = isinstance(outputs[-1], e.TERMINAL)
        draft = Draft(at, [], outputs) if is_end else Draft(at, outputs)
        park = Park(max(at, run.available_at or at)) if isinstance(outputs[-1], e.Resumed) else Park(None)
        unread = await _unread_updates(store, row) if is_end else ()
        commit = finish(run, row.no, row.epoch, draft, inbox_seen=row.inbox_last, is_consuming=False, park=park)
        if unread:
            commit = msgspec.structs.replace(commit, answers=(*commit.answers, *at_end(run, unread)))
        verdict = sole_verdict(await store.commit([commit]))
        if isinstance(verdict, Committed):
            return True
    return False


async def _unread_updates(store: Store, row: RunRow) -> list[str]:
    """Updates that no worker will read. One that arrives meanwhile makes the store refuse the end."""
    if row.inbox_last <= row.inbox_read:
        return []
    messages = (await store.unread({row.no: row.inbox_read})).get(row.no, ())
    return [message.id for message in messages if message.kind == "update"]


async def _fold(store: Store, row: RunRow) -> Run:
    """The run. If its journal is damaged, or rows are missing at its end, as much as its row says: an operator can
    still end it."""
    stored = (await store.read({row.no: 1}))[row.no]
    try:
        run = fold(row.id, decode_rows(stored))
    except CorruptJournal:
        return run_of_row(row, stored)
    return run_of_row(row, stored) if run.ordinal < row.next_ordinal - 1 else run
