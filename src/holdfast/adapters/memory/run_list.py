"""Which runs a list shows, in which order, and where a cursor points."""

from __future__ import annotations

import base64
from datetime import datetime

from holdfast.core.turn import instant, micros
from holdfast.errors import InvalidInput
from holdfast.ports.runs import RunRow, matches

__all__ = ["cursor", "matches", "place", "position"]


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
