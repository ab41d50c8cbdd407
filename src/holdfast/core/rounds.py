"""Rounds: how the parent of many runs lets all of them do their next steps before any does the ones after.

A run in rounds begins the first steps it asks for. Those it asks for later wait: it gives itself back, naming them, and
its parent hears of it. Their bodies begin when the parent has given it the next round. One that is cancelled, or past
its deadline, does not wait: it cleans up. Sleeps, signals and children belong to no round.

A parent that gives no more rounds says so, and if it ends, however it does, its last turn says so for it: from then on
the run is in no rounds and continues by itself. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from holdfast.core import events as e

BATCH = "holdfast.batch"
"""The workflow whose runs conduct batches."""

ROUND = "holdfast.round"
"""The signal that gives a round, and the one that asks for it."""

NO_MORE = b'"no more"'
"""The value of a parent's last signal: there are no more rounds."""

Round: TypeAlias = Literal["", "free", "used", "due"]
"""Where a run stands: in no rounds; before the first steps; they were asked for; steps wait for the next round."""

_STOPPING = (e.CancelRequested, e.DeadlineReached)


def after_signal(event: e.SignalReceived) -> Round:
    """Where a run in rounds stands once its parent has sent it this."""
    return "" if bytes(event.value) == NO_MORE else "used"


def is_given(events: Iterable[e.AnyEvent]) -> bool:
    """Whether the next round is among what came in."""
    return any(isinstance(x, e.SignalReceived) and x.name == ROUND for x in events)


def must_wait(round: Round, inputs: Iterable[e.AnyEvent], *, is_stopping: bool) -> bool:
    """Whether steps that have not begun, or are asked for now, are for the next round."""
    if round in {"", "free"} or is_stopping:
        return False
    return not any(isinstance(x, _STOPPING) for x in inputs) and not is_given(inputs)
