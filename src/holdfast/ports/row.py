"""The effect of a turn on its run's row in `runs`: the one definition of this rule.

Besides the projection, a turn decides which worker holds the run, when it is due, and what still counts against it.
Only the store knows whether there are messages that the turn has not seen. So the rule has two outcomes, inbox read and
inbox unread. A store chooses between them by the row's `inbox_last`, under the lock it writes with, and sets the
values.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from holdfast.core.status import Status
from holdfast.core.suspicion import NONE
from holdfast.core.turn import instant
from holdfast.ports.journal import Commit
from holdfast.ports.runs import RunRow

Due: TypeAlias = datetime | Literal["as before", "at once", "never"]
"""When a run is due: `available_at`. "never": not by time."""


class RowAfter(msgspec.Struct, frozen=True, gc=False):
    """The effect of a turn on the row."""

    clears: bool
    """Whether claims without progress become 0 and all evidence against the run is cleared. Otherwise both stay."""
    keeps_lease: bool
    """Whether the holder keeps the run; otherwise the run has no holder afterwards."""
    is_open: bool
    """Whether a worker may claim the run once it has no holder and is due: it is neither paused nor ended."""
    read: Due
    """When the run is due if the turn has seen every message."""
    unread: Due | None
    """When the run is due if it has not. None: the turn is refused."""


_OPEN = (Status.PENDING, Status.RUNNING)
_ENDED = RowAfter(clears=True, keeps_lease=False, is_open=False, read="never", unread=None)
_KEPT = {
    (clears, is_open): RowAfter(clears=clears, keeps_lease=True, is_open=is_open, read="as before", unread="as before")
    for clears in (True, False)
    for is_open in (True, False)
}


def row_after(commit: Commit) -> RowAfter:
    """The rule. An end gives the lease back for good. A turn that parks gives it back until `until`, and is awake at
    once if it missed a message. Any other turn keeps the lease, and is not progress if it only restarts what was in
    flight: then the claim still counts. A worker that gives the lease back was not killed by the run."""
    if commit.is_terminal:
        return _ENDED
    is_open = commit.projection.status in _OPEN
    if commit.park is None:
        return _KEPT[commit.is_progress, is_open]
    until = commit.park.until
    return RowAfter(
        clears=True, keeps_lease=False, is_open=is_open, read="never" if until is None else until, unread="at once"
    )


def read_to(commit: Commit) -> int:
    """Up to which message the turn reads the inbox, at least."""
    return commit.inbox_seen if commit.is_consuming else 0


def moved(run: RunRow, commit: Commit, now: datetime) -> RunRow | None:
    """The row of a run after the turn, before what else the turn brings. None: the turn is refused, because there are
    messages that it has not seen."""
    after, facts = row_after(commit), commit.projection
    due = after.unread if run.inbox_last > commit.inbox_seen else after.read
    if due is None:
        return None
    at = instant(commit.row.at)
    row = msgspec.structs.replace(
        run,
        workflow=facts.workflow,
        version=facts.version,
        status=facts.status,
        doing=facts.doing,
        started_at=facts.started_at,
        updated_at=at,
        ended_at=at if commit.is_terminal else None,
        next_ordinal=commit.row.ordinal + 1,
        inbox_read=max(run.inbox_read, read_to(commit)),
        instance=run.instance if after.keeps_lease else "",
        available_at=available_at(due, run.available_at, now),
    )
    if after.clears:
        row = msgspec.structs.replace(row, claims=0, deaths=NONE.deaths, solo=NONE.solo, alone=NONE.alone)
    return row


def available_at(due: Due, before: datetime | None, now: datetime) -> datetime | None:
    """The column of that name: unchanged from `before`, or new."""
    match due:
        case datetime():
            return due
        case "as before":
            return before
        case "at once":
            return now
        case "never":
            return None
