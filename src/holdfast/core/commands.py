"""What a program asks for. A closed set: the engine matches all of them, and each has one event that records it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal, TypeAlias, assert_never

import msgspec

from holdfast.core import events
from holdfast.core.definition import DefinitionBytes
from holdfast.core.failure import Failure
from holdfast.core.payload import MAX_INLINE, hash_of
from holdfast.core.pieces import SMALLEST, cut
from holdfast.core.references import MARK, ReferringBytes, references_in
from holdfast.core.retry import Retry
from holdfast.core.specs import StepSpec


class Asked(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request of a program."""


class RunStep(Asked, frozen=True):
    """Run a step's body until it has an outcome."""

    key: str
    spec: StepSpec
    args: bytes
    retry: Retry
    timeout: timedelta | None = None
    undo: bool = False
    undoes: str = ""
    where: str = ""
    uncounted: bool = False


class AbandonStep(Asked, frozen=True):
    """The author's code no longer wants that step's outcome."""

    key: str


class StartTimer(Asked, frozen=True):
    """Sleep until then."""

    key: str
    until: datetime


class AwaitMessage(Asked, frozen=True):
    """Wait for a signal or an update to this run, or for a publication."""

    key: str
    name: str
    kind: events.MessageKind
    until: datetime | None = None


class EndWait(Asked, frozen=True):
    """A wait took a message, or is given up."""

    key: str
    message: str = ""


class StartChild(Asked, frozen=True):
    """Start a run of another workflow; its end comes back as `ChildEnded`."""

    key: str
    run: str
    workflow: str
    version: str
    args: bytes
    queue: str = ""
    until: datetime | None = None
    on_cancel: str = ""
    awaited: bool = True
    deadline: timedelta | None = None
    code: str = ""
    style: str = ""
    definition: bytes = b""
    in_rounds: bool = False
    attributes: dict[str, str] = {}
    brings: Mapping[str, bytes] = {}  # blobs that its arguments refer to, stored with the turn
    uncounted: bool = False


class Send(Asked, frozen=True):
    """Send a message with this turn."""

    key: str
    to: str
    kind: Literal["signal", "cancel", "publish"]
    name: str = ""
    value: bytes = b"null"
    id: str = ""


class Expose(Asked, frozen=True):
    """Expose a value."""

    name: str
    value: bytes


class Emit(Asked, frozen=True):
    """Send a part to a stream of the run."""

    name: str
    value: bytes


class Answer(Asked, frozen=True):
    """Settle an update."""

    message: str
    outcome: events.AnswerOutcome
    value: bytes


class SetAttributes(Asked, frozen=True):
    """Change the run's attributes."""

    attributes: dict[str, str | None]


class Patch(Asked, frozen=True):
    """Record that this run takes the new path."""

    name: str


class Enter(Asked, frozen=True):
    """A machine enters a state whose body is a script."""

    key: str
    state: str


class Keep(Asked, frozen=True):
    """A saga succeeded: these steps no longer need an undo."""

    keys: tuple[str, ...]


class Complete(Asked, frozen=True):
    """The body returned."""

    value: bytes


class Fail(Asked, frozen=True):
    """An error left the body. `from_step`: it is the final error of a step, or one that the workflow's policy does not
    retry."""

    failure: Failure
    from_step: bool = False


class Stop(Asked, frozen=True):
    """The body ended because the run was cancelled."""

    reason: str = ""
    actor: str = ""


class ContinueAs(Asked, frozen=True):
    """Start over with different arguments."""

    workflow: str
    version: str
    args: bytes


Command: TypeAlias = (
    RunStep
    | AbandonStep
    | StartTimer
    | AwaitMessage
    | EndWait
    | StartChild
    | Send
    | Expose
    | Emit
    | Answer
    | SetAttributes
    | Patch
    | Enter
    | Keep
    | Complete
    | Fail
    | Stop
    | ContinueAs
)


def carry(data: bytes, blobs: dict[str, bytes]) -> tuple[msgspec.Raw, str, tuple[str, ...]]:
    """A plain payload as the `value`, `blob` and `refs` of an event; a large one is added to `blobs`."""
    refs = references_in(data) if data.find(MARK) >= 0 else ()  # most payloads refer to nothing
    if len(data) <= MAX_INLINE:
        return msgspec.Raw(data), "", refs
    name = hash_of(data)
    blobs[name] = ReferringBytes(data, refs) if refs else data
    return events.NULL, name, refs


def record(command: Command, blobs: dict[str, bytes]) -> events.Output:
    """The event that records a command. Large payloads go to `blobs`."""
    match command:
        case RunStep():
            return _record_step(command, blobs)
        case Complete():  # every run has one: a pattern that does not match takes its time
            value, blob, refs = carry(command.value, blobs)
            return events.Completed(value=value, blob=blob, refs=refs)
        case AbandonStep():
            return events.StepAbandoned(key=command.key)
        case StartTimer():
            return events.SleepStarted(key=command.key, until=command.until)
        case AwaitMessage():
            return events.WaitStarted(key=command.key, name=command.name, kind=command.kind, until=command.until)
        case EndWait():
            return events.WaitEnded(key=command.key, message=command.message)
        case StartChild():
            return _record_child(command, blobs)
        case Send():
            value, blob, refs = carry(command.value, blobs)
            return events.MessageSent(
                key=command.key,
                to=command.to,
                kind=command.kind,
                name=command.name,
                id=command.id,
                value=value,
                blob=blob,
                refs=refs,
            )
        case Expose():
            value, blob, refs = carry(command.value, blobs)
            return events.Exposed(name=command.name, value=value, blob=blob, refs=refs)
        case Emit():
            return events.Streamed(name=command.name)
        case Answer():
            value, blob, refs = carry(command.value, blobs)
            return events.Answered(message=command.message, outcome=command.outcome, value=value, blob=blob, refs=refs)
        case SetAttributes():
            return events.AttributesSet(attributes=command.attributes)
        case Patch():
            return events.Patched(name=command.name)
        case Enter():
            return events.Entered(key=command.key, state=command.state)
        case Keep():
            return events.Kept(keys=command.keys)
        case Fail():
            return events.Failed(failure=command.failure)
        case Stop():
            return events.Cancelled(reason=command.reason, actor=command.actor)
        case ContinueAs():
            value, blob, refs = carry(command.args, blobs)
            return events.Continued(
                workflow=command.workflow, version=command.version, value=value, blob=blob, refs=refs
            )
        case _:
            assert_never(command)


def _record_step(command: RunStep, blobs: dict[str, bytes]) -> events.StepScheduled:
    name, kept, hashed = command.spec.name, command.spec.input, ""
    pieces: tuple[str, ...] = ()
    if kept == "hash" or (kept == "pieces" and len(command.args) > SMALLEST):
        value, blob, refs, hashed = events.NULL, "", references_in(command.args), hash_of(command.args)
        if kept == "pieces":
            found = [(hash_of(piece), piece) for piece in cut(command.args)]
            blobs.update(found)
            pieces = tuple(name for name, _ in found)
    else:
        value, blob, refs = carry(command.args, blobs)
    return events.StepScheduled(
        key=command.key,
        step="" if name == command.key else name,
        value=value,
        blob=blob,
        refs=refs,
        undo=command.undo,
        undoes=command.undoes,
        hashed=hashed,
        pieces=pieces,
        uncounted=command.uncounted,
    )


def _record_child(command: StartChild, blobs: dict[str, bytes]) -> events.ChildStarted:
    value, blob, refs = carry(command.args, blobs)
    if command.definition:
        blobs[command.code] = DefinitionBytes(command.definition)
    blobs.update(command.brings)
    return events.ChildStarted(
        key=command.key,
        run=command.run,
        workflow=command.workflow,
        version=command.version,
        queue=command.queue,
        until=command.until,
        on_cancel=command.on_cancel,
        awaited=command.awaited,
        in_rounds=command.in_rounds,
        uncounted=command.uncounted,
        value=value,
        blob=blob,
        refs=refs,
    )
