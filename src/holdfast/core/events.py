"""The events of a journal: a closed, versioned set of frozen types.

A turn's row holds the events that came in (*inputs*: outcomes, timers, messages), followed by the program's reaction
(*outputs*: what it scheduled, waits for, or how it ended). Replay feeds the inputs of a row and compares the outputs.
Tags and field names are stored forever: to change one, add an upcaster (`core.upcast`) and raise `core.turn.FORMAT`.

Payloads are raw JSON in `value`; above the inline limit `value` is absent and `blob` names the bytes by SHA-256. `refs`
names the blobs that the payload refers to: nothing searches the payload for them.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, TypeAlias, get_args

import msgspec

from holdfast.core.attempt_events import (
    AttemptFailed,
    AttemptStarted,
    HeldBack,
    Limited,
    StepCompleted,
    StepFailed,
)
from holdfast.core.event import (
    NULL,
    AnswerOutcome,
    Carrier,
    EndStatus,
    Event,
    Instant,
    MessageKind,
    PauseReason,
    Span,
)
from holdfast.core.failure import Failure
from holdfast.core.outputs import (
    Answered,
    AttributesSet,
    Cancelled,
    ChildStarted,
    Completed,
    Continued,
    Entered,
    Exposed,
    Failed,
    Kept,
    MessageSent,
    Patched,
    RetryPlanned,
    SleepStarted,
    StepAbandoned,
    StepScheduled,
    Streamed,
    WaitEnded,
    WaitStarted,
)
from holdfast.core.redacted import Redacted

__all__ = [
    "CARRIERS",
    "INPUTS",
    "NULL",
    "OUTPUTS",
    "TERMINAL",
    "Adopted",
    "AnswerOutcome",
    "Answered",
    "AnyEvent",
    "AttemptFailed",
    "AttemptStarted",
    "AttributesSet",
    "CancelRequested",
    "Cancelled",
    "Carrier",
    "ChildEnded",
    "ChildStarted",
    "Claimed",
    "Compacted",
    "Completed",
    "Continued",
    "DeadlineReached",
    "EndStatus",
    "Entered",
    "Event",
    "Exposed",
    "Fact",
    "Failed",
    "HeldBack",
    "Input",
    "InputGiven",
    "Instant",
    "Kept",
    "Limited",
    "MessageDropped",
    "MessageKind",
    "MessageSent",
    "Output",
    "PassStarted",
    "Patched",
    "PauseReason",
    "Paused",
    "PredecessorEnded",
    "Redacted",
    "Released",
    "Resumed",
    "RetryPlanned",
    "Segment",
    "SendSettled",
    "SignalReceived",
    "SleepStarted",
    "Span",
    "Started",
    "StepAbandoned",
    "StepCompleted",
    "StepFailed",
    "StepScheduled",
    "Streamed",
    "Terminal",
    "TimerFired",
    "TopicReceived",
    "UpdateReceived",
    "WaitEnded",
    "WaitStarted",
]

# -- inputs: what happened ---------------------------------------------------------------------------------------------


class Started(Carrier, frozen=True, tag="started", kw_only=True):
    """The run was created; `value` holds its arguments by name."""

    workflow: str
    version: str = ""
    code: str = ""
    codec: str = ""
    queue: str = "default"
    priority: int = 0
    key: str = ""
    available_at: Instant | None = None
    deadline: Instant | None = None
    parent: str = ""
    parent_key: str = ""
    root: str = ""
    on_cancel: str = ""
    attributes: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    retried_from: str = ""
    style: str = ""  # "machine": its states can be read from the journal; "flow": `code` names its definition
    keep: timedelta | None = None
    in_rounds: bool = False  # its parent gives the rounds, see `core.rounds`
    actor: str = ""  # who started it, if a person did, by hand
    trace: str = ""  # the trace it belongs to, see `core.trace`; so for messages
    share: str = ""  # what it competes as in its queue, see `core.gate`; "": its workflow
    after: tuple[str, ...] = ()  # runs that must have ended before it begins
    latest: Instant | None = None  # inputs that are given before it begins put that off until then at most
    most: int = 0  # with that many inputs it begins at once; 0: any number


class Segment(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A range of condensed turns, packed in the blob of that name; `names` are the blobs that those turns name, and
    `format` is that of their events. A segment is never rewritten, so one journal may have segments of several
    formats."""

    blob: str
    first: int
    last: int
    names: tuple[str, ...] = ()
    format: int = 1


class Compacted(Event, frozen=True, tag="compacted", kw_only=True):
    """Replaces the rows 1 to `rows`: the fold after them, and what a replay needs of them. The row keeps the ordinal,
    epoch, time and checksum of the last row it replaces, so the chain continues; `seal` binds this event to them
    (`core.turn.sealed`), and is always the last field.
    """

    rows: int
    fold: msgspec.Raw
    segments: tuple[Segment, ...] = ()
    seal: str = ""


class Adopted(Event, frozen=True, tag="adopted", kw_only=True):
    """A retried run takes over the settled events of the run it retries, and its untaken signals."""

    facts: tuple[Fact, ...]


class Claimed(Event, frozen=True, tag="claimed", kw_only=True):
    """First event of a new epoch: the worker that took the run, the steps in flight whose attempts restart, and the
    steps that were scheduled but had not begun, and begin now."""

    worker: str
    restarted: tuple[str, ...] = ()
    begun: tuple[str, ...] = ()


class Released(Event, frozen=True, tag="released", kw_only=True):
    """The holder gave the run back; these steps were scheduled but their bodies had not begun, and begin with the next
    claim, or with the next round (`core.rounds`).

    It is the last event of its row: a step may be scheduled and named here in one turn.
    """

    worker: str
    unstarted: tuple[str, ...] = ()
    next_round: bool = False


class TimerFired(Event, frozen=True, tag="fired", kw_only=True):
    """A sleep, timeout or wait reached its time."""

    key: str


class SignalReceived(Carrier, frozen=True, tag="signal", kw_only=True):
    """A signal moved from the inbox to the journal. One that an operator replaced says so; if it was here already and
    no wait took it, this event replaces it."""

    message: str
    name: str
    sender: str = ""
    trace: str = ""
    replaced_by: str = ""
    reason: str = ""


class UpdateReceived(SignalReceived, frozen=True, tag="update", kw_only=True):
    """A question moved from the inbox to the journal. It is kept and taken like a signal, and one `Answered` settles
    it."""


class SendSettled(Event, frozen=True, tag="settled", kw_only=True):
    """The outcome of a signal that row `ordinal` sent under `key`: recorded if it did not arrive, or if the program
    waits for it. "missing": there is no such run; "conflict": another message had its id; otherwise the status in which
    the run had ended."""

    key: str
    status: Literal["delivered", "missing", "conflict", "completed", "failed", "cancelled"] = "delivered"
    to: str = ""
    name: str = ""
    ordinal: int = 0


class TopicReceived(Carrier, frozen=True, tag="topic", kw_only=True):
    """A publication reached the wait `key`."""

    key: str
    message: str
    name: str
    trace: str = ""
    sender: str = ""


class ChildEnded(Carrier, frozen=True, tag="child_ended", kw_only=True):
    """A child this run started, or a run it adopted, ended."""

    key: str
    run: str
    status: EndStatus
    failure: Failure | None = None
    ended_at: Instant | None = None


class InputGiven(Carrier, frozen=True, tag="input", kw_only=True):
    """A call joined the run before it began. `value` stands in the place of its arguments, or, with `into`, is one more
    item of that argument. `begins_at`: when the run is to begin after this."""

    message: str
    into: str = ""
    begins_at: Instant | None = None
    trace: str = ""


class PredecessorEnded(Event, frozen=True, tag="predecessor", kw_only=True):
    """A run that had to end before this one begins has ended."""

    run: str


class CancelRequested(Event, frozen=True, tag="cancel", kw_only=True):
    """A cancel was requested; the run's clean-up has until `grace_until`."""

    message: str = ""
    reason: str = ""
    actor: str = ""
    grace_until: Instant | None = None
    trace: str = ""


class DeadlineReached(Event, frozen=True, tag="deadline", kw_only=True):
    """The run's deadline passed; its clean-up has until `grace_until`."""

    grace_until: Instant | None = None


class PassStarted(Event, frozen=True, tag="pass", kw_only=True):
    """A workflow-level retry is due: the body begins again over what is settled."""

    number: int


class Paused(Event, frozen=True, tag="paused", kw_only=True):
    """The run is paused until it is resumed."""

    reason: PauseReason
    detail: str = ""
    actor: str = ""


class Resumed(Event, frozen=True, tag="resumed", kw_only=True):
    """A paused run was resumed."""

    actor: str = ""


class MessageDropped(Event, frozen=True, tag="dropped", kw_only=True):
    """An operator dropped a message. An unread one is named by its number, which this event takes; a signal that no
    wait had taken is named by its id. `asked`: it was an update, and its sender is told."""

    number: int = 0
    reason: str = ""
    actor: str = ""
    message: str = ""
    name: str = ""
    asked: bool = False


Input: TypeAlias = (
    Started
    | Compacted
    | Adopted
    | Claimed
    | Released
    | Limited
    | HeldBack
    | StepCompleted
    | AttemptFailed
    | AttemptStarted
    | StepFailed
    | TimerFired
    | SignalReceived
    | UpdateReceived
    | SendSettled
    | TopicReceived
    | ChildEnded
    | PredecessorEnded
    | InputGiven
    | CancelRequested
    | DeadlineReached
    | PassStarted
    | Paused
    | Resumed
    | MessageDropped
    | Redacted
)
Fact: TypeAlias = (
    StepScheduled
    | StepCompleted
    | StepFailed
    | SleepStarted
    | TimerFired
    | ChildStarted
    | ChildEnded
    | WaitStarted
    | WaitEnded
    | SignalReceived
    | UpdateReceived
    | TopicReceived
)
Terminal: TypeAlias = Completed | Failed | Cancelled
Output: TypeAlias = (
    StepScheduled
    | StepAbandoned
    | SleepStarted
    | WaitStarted
    | WaitEnded
    | ChildStarted
    | MessageSent
    | Exposed
    | Streamed
    | Answered
    | AttributesSet
    | Patched
    | Entered
    | Kept
    | Terminal
    | RetryPlanned
    | Continued
)
AnyEvent: TypeAlias = Input | Output

INPUTS: tuple[type[Event], ...] = get_args(Input)
OUTPUTS: tuple[type[Event], ...] = get_args(Output)
TERMINAL: tuple[type[Event], ...] = get_args(Terminal)
CARRIERS: frozenset[type[Event]] = frozenset(kind for kind in (*INPUTS, *OUTPUTS) if issubclass(kind, Carrier))
"""The events with a payload. For code that every turn runs: `isinstance` with a class above the event's own takes
longer than the rest of such a look."""
