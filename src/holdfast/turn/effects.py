"""The effects of a machine, a closed set. They are performed in order, and nothing else is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

import msgspec

from holdfast.core import events as e
from holdfast.core.commands import RunStep
from holdfast.core.program import Program
from holdfast.ports.journal import Commit, Park
from holdfast.ports.limits import Hold, PlaceAsk
from holdfast.turn.draft import Draft
from holdfast.turn.outcome import Outcome


class Asked(msgspec.Struct, frozen=True, gc=False):
    """Something to do."""


# -- where a turn goes -------------------------------------------------------------------------------------------------


class Group(Asked, frozen=True):
    """With the turns of other runs, in one transaction."""


class Birth(Asked, frozen=True):
    """With the start of the run, which does not exist yet."""


class Within(Asked, frozen=True):
    """In the open transaction of the step of that key."""

    key: str


Where: TypeAlias = Group | Birth | Within
GROUP, BIRTH = Group(), Birth()


# -- effects -----------------------------------------------------------------------------------------------------------


class Submit(Asked, frozen=True):
    """Write the turn; a `Verdict` follows."""

    commit: Commit
    where: Where


class Start(Asked, frozen=True):
    """Begin a body whose row is durable. It lands (`Landed`, `Held`), and is stopped at `expires_at`."""

    command: RunStep
    attempt: int
    progress: bytes
    expires_at: datetime | None


class Stop(Asked, frozen=True):
    """Ask a body to end; its outcome still comes."""

    key: str
    why: str


class Forget(Asked, frozen=True):
    """End a body and ignore its outcome."""

    key: str
    why: str


class GiveUp(Asked, frozen=True):
    """Roll back what the body of that step wrote in its open transaction."""

    key: str


class WakeAt(Asked, frozen=True):
    """Send `TimeCame` then; a later time than an earlier request changes nothing."""

    at: datetime


class LookInbox(Asked, frozen=True):
    """Read the inbox; `Messages` follow if there are any."""


class Rest(Asked, frozen=True):
    """The run needs no slot for now, or needs one again."""

    is_resting: bool


class Release(Asked, frozen=True):
    """Release the run without a turn; `Released` follows. Messages after number `seen` are unread."""

    until: datetime | None
    seen: int


class Return(Asked, frozen=True):
    """Release the run without a turn and without an answer."""

    until: datetime
    seen: int


class MovePlaces(Asked, frozen=True):
    """Send changes of places to the store: see `ports.limits.PlaceMove`. If it asks for some, `Places` follow."""

    drops: tuple[str, ...] = ()
    holds: tuple[Hold, ...] = ()
    asks: tuple[PlaceAsk, ...] = ()
    is_parked: bool = False


class Reload(Asked, frozen=True):
    """End the program and read journal and inbox again; `Opened` follows with these inputs, or `Unreadable`."""

    kept: Sequence[e.AnyEvent]


class Doubt(Asked, frozen=True):
    """The store may list runs as ours that this worker does not know."""


class Leave(Asked, frozen=True):
    """The run is no longer held here. `is_warm`: its program may stay in memory; `anew`: after `continue_as`, the
    program of its next pass; `is_over`: the run has ended."""

    is_warm: bool
    is_over: bool
    anew: e.Continued | None = None
    blobs: Mapping[str, bytes] = {}


class Close(Asked, frozen=True):
    """End a program that came too late."""

    program: Program


# -- facts: nothing is to be done, but a listener may want to know -----------------------------------------------------


FIRST_TURN = 2
"""Row 1 is the start of the run."""


class Ended(Asked, frozen=True):
    """The run has ended, durably."""

    end: e.ChildEnded


class Turned(Asked, frozen=True):
    """A turn is durable. It had not seen `unread` messages. `is_told`: it may have something to tell, unlike most."""

    draft: Draft
    park: Park | None
    is_leaving: bool
    unread: int
    is_told: bool = True


class StepEnded(Asked, frozen=True):
    """A body ended. `event` is what the journal will say about a failure, if known."""

    key: str
    attempt: int
    outcome: Outcome
    event: e.AnyEvent | None = None


class Dropped(Asked, frozen=True):
    """The run is given up without writing."""

    why: str
    event: str


class GivenBack(Asked, frozen=True):
    """The run was released without a turn."""

    is_leaving: bool


class Broken(Asked, frozen=True):
    """The program raised an unexpected error."""

    error: Exception


Fact: TypeAlias = Ended | Turned | StepEnded | Dropped | GivenBack | Broken

Effect: TypeAlias = (
    Submit
    | Start
    | Stop
    | Forget
    | GiveUp
    | WakeAt
    | LookInbox
    | Rest
    | Release
    | Return
    | MovePlaces
    | Reload
    | Doubt
    | Leave
    | Close
    | Fact
)
