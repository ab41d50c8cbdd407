"""A turn being written: what came in, and what becomes of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from holdfast.core import commands as c
from holdfast.core import events as e

_ENDS = frozenset(e.TERMINAL)


class Draft(msgspec.Struct, gc=False):
    """A turn being written."""

    at: datetime
    inputs: list[e.AnyEvent]
    outputs: list[e.AnyEvent] = []
    commands: Sequence[c.Command] = ()
    blobs: dict[str, bytes] = {}

    @property
    def is_terminal(self) -> bool:
        """Whether the run ends with it."""
        return bool(self.outputs) and type(self.outputs[-1]) in _ENDS

    @property
    def ends_pass(self) -> bool:
        """Whether the body begins anew after it."""
        return bool(self.outputs) and isinstance(self.outputs[-1], e.Continued | e.RetryPlanned)

    @property
    def asks_for_steps(self) -> bool:
        """Whether a step is asked for in it."""
        return any(isinstance(x, e.StepScheduled) for x in self.outputs)

    @property
    def asks_for_step(self) -> bool:
        """Whether it is one of the many whose last word is a step asked for."""
        return bool(self.outputs) and type(self.outputs[-1]) is e.StepScheduled


def is_progress(draft: Draft) -> bool:
    """Whether the turn says more than who claimed the run."""
    return bool(draft.outputs) or any(type(event) is not e.Claimed for event in draft.inputs)
