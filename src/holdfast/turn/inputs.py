"""The inputs of the machine of a held run, a closed set. Each has its time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias

import msgspec

from holdfast.core import events as e
from holdfast.core.program import Program
from holdfast.core.run import Run
from holdfast.ports.transactions import Settlement
from holdfast.turn.outcome import Outcome


class Given(msgspec.Struct, frozen=True, gc=False):
    """An input."""

    at: datetime


class Opened(Given, frozen=True):
    """The run is where its journal ends: claimed cold or warm, about to be created, or read again after a refusal.

    `kept` are inputs of the refused turn, `messages` what is unread in its inbox, from `after` (see `Messages`) up to
    number `last`.
    """

    run: Run
    program: Program
    messages: Sequence[e.AnyEvent] = ()
    last: int = 0
    kept: Sequence[e.AnyEvent] = ()
    after: int | None = None


class Landed(Given, frozen=True):
    """A body ended. `progress` is its last reported progress; `stopped` is why it was asked to end, None if it was not;
    `sent` is what it sent to streams, all durable."""

    key: str
    outcome: Outcome
    progress: bytes | None = None
    stopped: str | None = None
    sent: tuple[e.Span, ...] = ()


class Held(Given, frozen=True):
    """A body succeeded, and its writes wait in an open transaction for the turn that takes its value."""

    key: str
    value: bytes


class Messages(Given, frozen=True):
    """What was in the inbox after number `after` (None: after what the machine has seen), up to number `last`."""

    events: Sequence[e.AnyEvent]
    last: int
    after: int | None = None


class News(Given, frozen=True):
    """Something may be in the inbox."""


class TimeCame(Given, frozen=True):
    """A requested time has come. `is_looking`: the inbox is about to be read."""

    is_looking: bool = False


class Verdict(Given, frozen=True):
    """The verdict on the submitted turn; `no` is the number of a run that was created with it."""

    said: Settlement
    no: int = 0


class Unknown(Given, frozen=True):
    """The outcome of the submitted turn cannot be found out here."""

    why: str


class Released(Given, frozen=True):
    """The store released the run; `is_ours` is false if another worker has it."""

    is_ours: bool


class Places(Given, frozen=True):
    """The store's answer on places: of the steps that `asked`, these are `granted`. `is_ours` is false if the store
    does not list the run as held here: then none of them waits in line."""

    asked: tuple[str, ...]
    granted: tuple[str, ...] = ()
    is_ours: bool = True


class Unreadable(Given, frozen=True):
    """The journal could not be read again."""

    error: Exception


class Drain(Given, frozen=True):
    """The worker is shutting down: the run is released once its bodies have ended."""


class Lost(Given, frozen=True):
    """Another worker owns the run, or soon will."""

    why: str
    event: str = "fenced"


Input: TypeAlias = (
    Opened
    | Landed
    | Held
    | Messages
    | News
    | TimeCame
    | Verdict
    | Unknown
    | Released
    | Places
    | Unreadable
    | Drain
    | Lost
)

INPUTS: tuple[type[Input], ...] = (
    *(Opened, Landed, Held, Messages, News, TimeCame),
    *(Verdict, Unknown, Released, Places, Unreadable, Drain, Lost),
)
