"""Which runs a list shows, in which order, and where a cursor points."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from datetime import datetime

from holdfast.core.turn import instant, micros
from holdfast.errors import InvalidInput
from holdfast.ports.condition import Backlog
from holdfast.ports.runs import RunRow, matches

__all__ = ["backlog_of", "cursor", "matches", "place", "position"]


def place(run: RunRow) -> tuple[datetime, int]:
    """The run's position in a list; the greatest comes first."""
    return run.created_at, run.no


def cursor(run: RunRow) -> str:
    """The cursor that points behind the run."""
    return base64.urlsafe_b64encode(b"%d:%d" % (micros(run.created_at), run.no)).decode()


def position(text: str) -> tuple[datetime, int]:
    """The position that a cursor names."""
    try:
        at, no = base64.b64decode(text, altchars=b"-_", validate=True).split(b":")
        return instant(int(at)), int(no)
    except (ValueError, OverflowError):
        raise InvalidInput(f"{text!r} is not a cursor of this store; pass the `next` of a page unchanged") from None


def backlog_of(runs: Iterable[RunRow], now: datetime) -> list[Backlog]:
    """Runs that wait for a worker, by definition and queue, the longest wait first."""
    found: dict[tuple[str, str, str], Backlog] = {}
    for run in runs:
        since = run.updated_at if run.bounces else run.available_at
        if run.instance or run.available_at is None or since is None or (run.available_at > now and not run.bounces):
            continue
        key = (run.workflow, run.version, run.queue)
        known = found.get(key)
        is_older = known is None or since < known.since
        found[key] = Backlog(
            workflow=run.workflow,
            version=run.version,
            queue=run.queue,
            count=1 + (known.count if known else 0),
            oldest=run.id if is_older or known is None else known.oldest,
            since=since if is_older or known is None else known.since,
        )
    return sorted(found.values(), key=lambda one: one.since)
