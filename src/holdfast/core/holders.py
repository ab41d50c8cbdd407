"""The workers that held a run, in order, and what each crash cut off, read from the journal. Pure.

A crash leaves no row. Known are the last row of the worker and the row of the worker that took over; the crash is
between the two. A run that only waits is released without a row too: a claim that restarts no step does not follow a
crash.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from holdfast.core import events as e
from holdfast.core.turn import Turn

End: TypeAlias = Literal["held", "released", "crashed", "paused", "ended"]


class Holder(msgspec.Struct, frozen=True, kw_only=True, rename={"begin": "from"}):
    """One worker's time with a run. `until` is None while it holds it."""

    worker: str
    epoch: int
    begin: datetime
    last_seen: datetime
    until: datetime | None = None
    end: End = "held"


class Crash(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that disappeared, the steps it was cut off in, and the worker that took over."""

    worker: str
    epoch: int
    last_seen: datetime
    cut: tuple[str, ...]
    taken_over_at: datetime
    by: str

    @property
    def after_seconds(self) -> float:
        """Seconds from its last row to the takeover."""
        return (self.taken_over_at - self.last_seen).total_seconds()


def holders(turns: Iterable[Turn], *, is_held: bool = True) -> tuple[list[Holder], list[Crash]]:
    """Every holder in order, and every crash. `is_held`: whether a worker holds the run now, if it is open: the journal
    does not say that the last one has released it."""
    found: list[Holder] = []
    crashes: list[Crash] = []
    held: Holder | None = None
    for turn in turns:
        for event in turn.events:
            if isinstance(event, e.Claimed):
                if held is not None and event.restarted:
                    found.append(msgspec.structs.replace(held, until=turn.at, end="crashed"))
                    crashes.append(_crash(held, event, turn))
                elif held is not None:
                    found.append(msgspec.structs.replace(held, until=held.last_seen, end="released"))
                held = Holder(worker=event.worker, epoch=turn.epoch, begin=turn.at, last_seen=turn.at)
        if held is not None:
            held = msgspec.structs.replace(held, last_seen=turn.at)
        end = _end(turn)
        if held is not None and end is not None:
            found.append(msgspec.structs.replace(held, until=turn.at, end=end))
            held = None
    if held is not None and not is_held:
        held = msgspec.structs.replace(held, until=held.last_seen, end="released")
    return (found if held is None else [*found, held]), crashes


def _crash(held: Holder, taken: e.Claimed, turn: Turn) -> Crash:
    return Crash(
        worker=held.worker,
        epoch=held.epoch,
        last_seen=held.last_seen,
        cut=taken.restarted,
        taken_over_at=turn.at,
        by=taken.worker,
    )


def _end(turn: Turn) -> End | None:
    """How the holder released the run in this row, if it did."""
    found: End | None = None
    for event in turn.events:
        match event:
            case e.Completed() | e.Failed() | e.Cancelled():
                return "ended"
            case e.Paused():
                found = "paused"
            case e.Released() | e.RetryPlanned() | e.Continued():
                found = found or "released"
            case _:
                pass
    return found
