"""A turn being written: its inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.ports.parts import TurnParts

_ENDS = frozenset(e.TERMINAL)
_ENDS_PASS = frozenset((e.Continued, e.RetryPlanned))


class Draft(msgspec.Struct, gc=False):
    """A turn being written. Its last output is read many times per turn, so it is looked up once."""

    at: datetime
    inputs: list[e.AnyEvent]
    outputs: list[e.AnyEvent] = []
    commands: Sequence[c.Command] = ()
    blobs: dict[str, bytes] = {}
    parts: Sequence[TurnParts] = ()  # for streams
    is_terminal: bool = False  # the run ends with it
    ends_pass: bool = False  # the body begins again after it
    asks_for_step: bool = False  # it is one of the many whose last word is a step asked for

    def __post_init__(self) -> None:
        if self.outputs:
            kind = type(self.outputs[-1])
            self.asks_for_step = kind is e.StepScheduled
            self.is_terminal = kind in _ENDS
            self.ends_pass = kind in _ENDS_PASS

    @property
    def asks_for_steps(self) -> bool:
        return any(isinstance(x, e.StepScheduled) for x in self.outputs)


def is_progress(draft: Draft) -> bool:
    """Whether the turn contains more than the claim."""
    return bool(draft.outputs) or any(type(event) is not e.Claimed for event in draft.inputs)
