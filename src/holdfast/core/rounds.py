"""Rounds: how the parent of many runs lets all of them do their next steps before any does the ones after.

A run in rounds begins the first steps it asks for. Later steps wait: the run is released with their names, and its
parent is told. Their bodies begin when the parent gives the run its next round. A run that is cancelled or past its
deadline does not wait: it cleans up. Sleeps, signals and children do not belong to rounds. A parent that gives no more
rounds says so; when it ends, for any reason, its last turn says so. From then on the run continues without rounds.
Pure.
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
"""The state of a run: not in rounds; before its first steps; first steps asked for; steps wait for the next round."""

_STOPPING = (e.CancelRequested, e.DeadlineReached)


def after_signal(event: e.SignalReceived) -> Round:
    """The state of a run in rounds after its parent's signal."""
    return "" if bytes(event.value) == NO_MORE else "used"


def is_given(events: Iterable[e.AnyEvent]) -> bool:
    """Whether the inputs contain the next round."""
    return any(isinstance(x, e.SignalReceived) and x.name == ROUND for x in events)


def must_wait(round: Round, inputs: Iterable[e.AnyEvent], *, is_stopping: bool) -> bool:
    """Whether steps that have not begun, or are asked for now, must wait for the next round."""
    if round in {"", "free"} or is_stopping:
        return False
    return not any(isinstance(x, _STOPPING) for x in inputs) and not is_given(inputs)
