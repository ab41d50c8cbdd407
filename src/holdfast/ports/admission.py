"""Admission: whether a run may begin now. One rule for both doors through which a run begins.

- `Leases.claim` takes runs that are there.
- `Runs.create` with `instance` makes a run that has begun already, beside the worker that starts it.

An operator's `Leases.take` and a holder's `Leases.reinstate` are not subject to admission: they are counted, and never
refused. (What is reinstated was counted by its claim.) The order among runs that may begin is fair by share, see
`core.shares`. A worker adds what only it knows, its free slots and whether others wait in line (`worker.slots`).
"""

from __future__ import annotations

from datetime import datetime

from holdfast.core.status import Status
from holdfast.ports.runs import RunRow

_OPEN = (Status.PENDING, Status.RUNNING)


def may_begin(run: RunRow, now: datetime) -> bool:
    """Whether a worker may have the run: it has no holder, is neither paused nor ended, and is due. The SQL stores have
    the same condition."""
    return not run.instance and run.status in _OPEN and run.available_at is not None and run.available_at <= now
