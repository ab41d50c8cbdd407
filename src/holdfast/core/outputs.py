"""Outputs: the events that record what a program made of its inputs. `core.events` has the whole set."""

from __future__ import annotations

from typing import Literal

from holdfast.core.event import AnswerOutcome, Carrier, Event, Instant, MessageKind
from holdfast.core.failure import Failure


class StepScheduled(Carrier, frozen=True, tag="step", kw_only=True):
    """A step was asked for; its first attempt may begin once this row is durable. `value` or `blob` holds its
    arguments, unless only their hash is kept, or they are kept in pieces."""

    key: str
    step: str = ""  # empty: the same as the key
    undo: bool = False  # inside a saga, and there is a way back
    undoes: str = ""
    hashed: str = ""  # the hash of its arguments, which are not kept, or in pieces
    pieces: tuple[str, ...] = ()  # the blobs that are its arguments together
    uncounted: bool = False  # one of many that count as one against the step limit


class StepAbandoned(Event, frozen=True, tag="abandoned", kw_only=True):
    """The author's code cancelled a step it had asked for; a late outcome is recorded and ignored."""

    key: str


class SleepStarted(Event, frozen=True, tag="sleep", kw_only=True):
    """A durable sleep. Its end is fixed when it is first reached."""

    key: str
    until: Instant


class WaitStarted(Event, frozen=True, tag="wait", kw_only=True):
    """The run waits for a signal, a topic or an update."""

    key: str
    name: str
    kind: MessageKind = "signal"
    until: Instant | None = None


class WaitEnded(Event, frozen=True, tag="wait_ended", kw_only=True):
    """A wait is over: it took `message` or, without one, timed out or was abandoned."""

    key: str
    message: str = ""


class ChildStarted(Carrier, frozen=True, tag="child", kw_only=True):
    """A child run was started in the same transaction. `value` holds its arguments."""

    key: str
    run: str
    workflow: str
    version: str = ""
    queue: str = ""
    until: Instant | None = None
    on_cancel: str = ""
    awaited: bool = True
    in_rounds: bool = False
    uncounted: bool = False  # one of many that count as one against the step limit


class MessageSent(Carrier, frozen=True, tag="sent", kw_only=True):
    """A message to another run, or to the watchers of a topic, sent in the same transaction. `id`: its author's; empty
    for one that is made of the row and the key."""

    key: str
    to: str
    kind: Literal["signal", "cancel", "publish"]
    name: str = ""
    id: str = ""


class Exposed(Carrier, frozen=True, tag="exposed", kw_only=True):
    """A value that the run exposes."""

    name: str


class Streamed(Event, frozen=True, tag="streamed", kw_only=True):
    """The workflow's own code sent parts to a stream. They are stored beside the journal, written with this row."""

    name: str
    parts: int = 1


class Answered(Carrier, frozen=True, tag="answered", kw_only=True):
    """The outcome of the update `message`. `value` is the answer, or the reason if it was refused or left."""

    message: str
    outcome: AnswerOutcome = "answered"


class AttributesSet(Event, frozen=True, tag="attributes", kw_only=True):
    """Changed attributes; None removes one."""

    attributes: dict[str, str | None]


class Patched(Event, frozen=True, tag="patched", kw_only=True):
    """`patched(name)` was called for the first time while live: this run takes the new path."""

    name: str


class Entered(Event, frozen=True, tag="entered", kw_only=True):
    """A machine entered a state whose body is a script. A state whose body is a step is named by that step."""

    key: str
    state: str


class Kept(Event, frozen=True, tag="kept", kw_only=True):
    """A saga succeeded: these steps will no longer be undone."""

    keys: tuple[str, ...]


class Completed(Carrier, frozen=True, tag="completed", kw_only=True):
    """The run ended with a result."""

    left: tuple[str, ...] = ()


class Failed(Event, frozen=True, tag="failed", kw_only=True):
    """The run ended with an error. `imposed`: by the engine (a limit, a deadline), not by the program."""

    failure: Failure
    left: tuple[str, ...] = ()
    undone: tuple[str, ...] = ()
    imposed: bool = False


class Cancelled(Event, frozen=True, tag="cancelled", kw_only=True):
    """The run ended cancelled. `imposed`: killed, or its clean-up took longer than the grace."""

    reason: str = ""
    actor: str = ""
    left: tuple[str, ...] = ()
    undone: tuple[str, ...] = ()
    imposed: bool = False


class RetryPlanned(Event, frozen=True, tag="retry", kw_only=True):
    """An error outside steps left the body; a new pass begins at `at` over what is settled."""

    failure: Failure
    at: Instant
    of: int | None = None


class Continued(Carrier, frozen=True, tag="continued", kw_only=True):
    """The run restarts with different arguments: same id, ordinals continue, everything before is settled."""

    workflow: str
    version: str = ""
