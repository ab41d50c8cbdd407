"""What a run will do once its bodies have ended."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from holdfast.turn.draft import Draft


class Intent(Enum):
    """Why a run is released as soon as no body runs; usually it is not."""

    STAY = "stay"
    HOLD = "hold"  # a gate holds its steps
    PAUSE = "pause"
    LEAVE = "leave"  # the worker is shutting down

    if not TYPE_CHECKING:
        __hash__ = object.__hash__  # as identity says, without a call

    def at_gate(self, draft: Draft, *, is_held: bool) -> Intent:
        """The intent after a turn at a gate: held steps do not begin, and the rest is unchanged."""
        if self is Intent.STAY and is_held and draft.asks_for_steps:
            return Intent.HOLD
        return Intent.STAY if self is Intent.HOLD and not is_held else self


STAY: Final = Intent.STAY
HOLD: Final = Intent.HOLD
PAUSE: Final = Intent.PAUSE
LEAVE: Final = Intent.LEAVE
"""The intents by their names alone, as `states` has the states."""
