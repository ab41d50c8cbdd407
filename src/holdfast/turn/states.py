"""The states of a held run and their transitions: a table that the tests prove and the docs draw.

`ALLOWED` is not interpreted at run time. tests/unit/turn proves that the machine follows it for every state and every
input; an impossible input is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

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


WAITS_FOR_STORE = frozenset((State.WRITING, State.RELEASING, State.REBUILDING))
"""States in which the store is being asked."""

_NEW, _IDLE, _FLYING = State.NEW, State.IDLE, State.FLYING
_WRITING, _RELEASING, _REBUILDING, _GONE = State.WRITING, State.RELEASING, State.REBUILDING, State.GONE
_AT_REST = frozenset((_IDLE, _WRITING, _RELEASING))

_BUFFERED = (Landed, Held, Messages, News, TimeCame, Places, Drain)

Next = frozenset[State]

ALLOWED: Mapping[tuple[State, type[Input]], Next] = {
    (_NEW, Opened): _AT_REST,
    (_NEW, Lost): frozenset((_GONE,)),
    (_IDLE, Landed): frozenset((_WRITING,)),
    (_IDLE, Messages): frozenset((_IDLE, _WRITING)),
    (_IDLE, News): frozenset((_IDLE,)),
    (_IDLE, TimeCame): _AT_REST,
    (_IDLE, Places): _AT_REST,
    (_IDLE, Drain): frozenset((_WRITING, _RELEASING)),
    (_IDLE, Lost): frozenset((_GONE,)),
    (_FLYING, Landed): _AT_REST | {_FLYING},
    (_FLYING, Held): frozenset((_WRITING,)),
    (_FLYING, Messages): frozenset((_FLYING, _WRITING)),
    (_FLYING, News): frozenset((_FLYING,)),
    (_FLYING, TimeCame): frozenset((_FLYING, _WRITING)),
    (_FLYING, Places): frozenset((_FLYING, _WRITING)),
    (_FLYING, Drain): frozenset((_FLYING, _WRITING)),
    (_FLYING, Lost): frozenset((_GONE,)),
    **{(_WRITING, kind): frozenset((_WRITING,)) for kind in _BUFFERED},
    (_WRITING, Verdict): frozenset((_IDLE, _FLYING, _WRITING, _RELEASING, _REBUILDING, _GONE)),
    (_WRITING, Unknown): frozenset((_GONE,)),
    (_WRITING, Lost): frozenset((_GONE,)),
    **{(_RELEASING, kind): frozenset((_RELEASING,)) for kind in (Landed, Messages, News, TimeCame, Places, Drain)},
    (_RELEASING, Released): frozenset((_GONE,)),
    (_RELEASING, Lost): frozenset((_GONE,)),
    **{(_REBUILDING, kind): frozenset((_REBUILDING,)) for kind in _BUFFERED},
    (_REBUILDING, Opened): frozenset((_FLYING, _WRITING)),
    (_REBUILDING, Unreadable): frozenset((_GONE,)),
    (_REBUILDING, Lost): frozenset((_GONE,)),
    **{
        (_GONE, kind): frozenset((_GONE,))
        for kind in (Opened, Landed, Held, Messages, News, TimeCame, Verdict, Unknown, Released, Places, Unreadable)
    },
    (_GONE, Drain): frozenset((_GONE,)),
    (_GONE, Lost): frozenset((_GONE,)),
}
"""(state, input) → the possible next states. A missing pair is impossible, and is refused."""
