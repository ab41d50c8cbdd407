"""Events of the attempts of steps. `core.events` has the whole set."""

from __future__ import annotations

import msgspec

from holdfast.core.event import NULL, Carrier, Event, Instant, Span
from holdfast.core.failure import Failure


class Limited(Event, frozen=True, tag="limited", kw_only=True):
    """Steps and their limits: `waiting` are scheduled and wait for a place (by key: the names of their limits), `begun`
    have a place, and begin. Like `Released` it is the last event of its row."""

    waiting: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    begun: tuple[str, ...] = ()


class HeldBack(Event, frozen=True, tag="held_back", kw_only=True):
    """An attempt asked for a pause of its limit. It did not fail; the next attempt waits for a place."""

    key: str
    attempt: int
    limit: str
    until: Instant


class StepCompleted(Carrier, frozen=True, tag="done", kw_only=True):
    """A step's body returned. `sent`: what its attempt sent to streams (failures have this too)."""

    key: str
    sent: tuple[Span, ...] = ()


class AttemptFailed(Event, frozen=True, tag="attempt_failed", kw_only=True):
    """An attempt failed and another follows at `retry_at`."""

    key: str
    attempt: int
    failure: Failure
    retry_at: Instant
    of: int | None = None
    progress: msgspec.Raw = NULL
    sent: tuple[Span, ...] = ()


class AttemptStarted(Event, frozen=True, tag="attempt", kw_only=True):
    """The time of a retry came: attempt `attempt` may begin."""

    key: str
    attempt: int


class StepFailed(Event, frozen=True, tag="step_failed", kw_only=True):
    """A step's last failure; memoised like a result."""

    key: str
    failure: Failure
    attempts: int = 1
    sent: tuple[Span, ...] = ()
