"""Which runs a list shows, in which order, and where a cursor points."""

from __future__ import annotations

import base64
from datetime import datetime

from holdfast.core.turn import instant, micros
from holdfast.errors import InvalidInput
from holdfast.ports.runs import Filter, RunRow

__all__ = ["cursor", "matches", "place", "position"]


def matches(run: RunRow, which: Filter) -> bool:
    """Whether a filter lets the run through."""
    return (
        (not which.workflow or run.workflow == which.workflow)
        and (which.version is None or run.version == which.version)
        and (not which.statuses or run.status in which.statuses)
        and (not which.queue or run.queue == which.queue)
        and (not which.parent or run.parent == which.parent)
        and (not which.root or run.root == which.root)
        and (not which.key or run.key == which.key)
        and (not which.worker or run.worker == which.worker)
        and which.attributes.items() <= run.attributes.items()
    )


def place(run: RunRow) -> tuple[datetime, int]:
    """Where the run stands in a list: the greatest comes first."""
    return run.created_at, run.no


def cursor(run: RunRow) -> str:
    """Names the place after the run."""
    return base64.urlsafe_b64encode(b"%d:%d" % (micros(run.created_at), run.no)).decode()


def position(text: str) -> tuple[datetime, int]:
    """The place a cursor names."""
    try:
        at, no = base64.b64decode(text, altchars=b"-_", validate=True).split(b":")
        return instant(int(at)), int(no)
    except (ValueError, OverflowError):
        raise InvalidInput(f"{text!r} is no cursor of this store; pass on the `next` of a page as it is") from None
