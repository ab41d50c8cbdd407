"""The states of a held run and their transitions: a table that the tests prove and the docs draw.

`ALLOWED` is not interpreted at run time. tests/unit/turn proves that the machine follows it for every state and every
input; an impossible input is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final

from holdfast.turn.inputs import (
    Drain,
    Held,
    Input,
    Landed,
    Lost,
    Messages,
    News,
    Opened,
    Places,
    Released,
    TimeCame,
    Unknown,
    Unreadable,
    Verdict,
)


class State(Enum):
    """The state of a run between two inputs."""

    NEW = "new"  # not opened yet
    IDLE = "idle"  # no body runs: it waits for a near time or for children, without a slot
    FLYING = "flying"  # bodies run, and there is nothing to write
    WRITING = "writing"  # a turn is on its way
    RELEASING = "releasing"  # it is being given back without a turn
    REBUILDING = "rebuilding"  # a turn was refused: the journal is being read again
    GONE = "gone"  # no longer held here

    if not TYPE_CHECKING:
        __hash__ = object.__hash__  # as identity says, without a call


NEW: Final = State.NEW
IDLE: Final = State.IDLE
FLYING: Final = State.FLYING
WRITING: Final = State.WRITING
RELEASING: Final = State.RELEASING
REBUILDING: Final = State.REBUILDING
GONE: Final = State.GONE
"""The states by their names alone: Python 3.11 looks up a member of an enum ten times as long as a name."""

WAITS_FOR_STORE = frozenset((WRITING, RELEASING, REBUILDING))
"""States in which the store is being asked."""

_AT_REST = frozenset((IDLE, WRITING, RELEASING))

_BUFFERED = (Landed, Held, Messages, News, TimeCame, Places, Drain)

Next = frozenset[State]

ALLOWED: Mapping[tuple[State, type[Input]], Next] = {
    (NEW, Opened): _AT_REST,
    (NEW, Lost): frozenset((GONE,)),
    (IDLE, Landed): frozenset((WRITING,)),
    (IDLE, Messages): frozenset((IDLE, WRITING)),
    (IDLE, News): frozenset((IDLE,)),
    (IDLE, TimeCame): _AT_REST,
    (IDLE, Places): _AT_REST,
    (IDLE, Drain): frozenset((WRITING, RELEASING)),
    (IDLE, Lost): frozenset((GONE,)),
    (FLYING, Landed): _AT_REST | {FLYING},
    (FLYING, Held): frozenset((WRITING,)),
    (FLYING, Messages): frozenset((FLYING, WRITING)),
    (FLYING, News): frozenset((FLYING,)),
    (FLYING, TimeCame): frozenset((FLYING, WRITING)),
    (FLYING, Places): frozenset((FLYING, WRITING)),
    (FLYING, Drain): frozenset((FLYING, WRITING)),
    (FLYING, Lost): frozenset((GONE,)),
    **{(WRITING, kind): frozenset((WRITING,)) for kind in _BUFFERED},
    (WRITING, Verdict): frozenset((IDLE, FLYING, WRITING, RELEASING, REBUILDING, GONE)),
    (WRITING, Unknown): frozenset((GONE,)),
    (WRITING, Lost): frozenset((GONE,)),
    **{(RELEASING, kind): frozenset((RELEASING,)) for kind in (Landed, Messages, News, TimeCame, Places, Drain)},
    (RELEASING, Released): frozenset((GONE,)),
    (RELEASING, Lost): frozenset((GONE,)),
    **{(REBUILDING, kind): frozenset((REBUILDING,)) for kind in _BUFFERED},
    (REBUILDING, Opened): frozenset((FLYING, WRITING)),
    (REBUILDING, Unreadable): frozenset((GONE,)),
    (REBUILDING, Lost): frozenset((GONE,)),
    **{
        (GONE, kind): frozenset((GONE,))
        for kind in (Opened, Landed, Held, Messages, News, TimeCame, Verdict, Unknown, Released, Places, Unreadable)
    },
    (GONE, Drain): frozenset((GONE,)),
    (GONE, Lost): frozenset((GONE,)),
}
"""(state, input) → the possible next states. A missing pair is impossible, and is refused."""
