"""What a run is about to do once it is quiet."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.turn.draft import Draft


class Intent(Enum):
    """Why a run is given back as soon as no body runs; mostly it is not."""

    STAY = "stay"
    HOLD = "hold"  # a gate holds its steps
    PAUSE = "pause"
    LEAVE = "leave"  # the worker is shutting down

    if not TYPE_CHECKING:
        __hash__ = object.__hash__  # as identity says, without a call

    def at_gate(self, draft: Draft, *, is_held: bool) -> Intent:
        """After a turn that met a gate: steps that are held do not begin, and what is not held stays."""
        if self is Intent.STAY and is_held and draft.asks_for_steps:
            return Intent.HOLD
        return Intent.STAY if self is Intent.HOLD and not is_held else self
