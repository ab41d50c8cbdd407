"""A run is what its journal says, and nothing else.

`Run.apply(turn)` takes one row after another; projections, listings, the engine's own bookkeeping, "resume after a
crash" and "what is it doing now?" all read this fold. It keeps what is open, not what is settled, so it stays small
however long the run is. A row that cannot follow the rows before it is a `CorruptJournal`. A whole journal is folded
by `core.fold`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from holdfast.core import events as e
from holdfast.core import mailbox
from holdfast.core.limited_steps import held_back, limited
from holdfast.core.mailbox import Mailbox
from holdfast.core.opened import OpenStep, OpenWait
from holdfast.core.rounds import ROUND, Round, after_signal
from holdfast.core.status import UNCLAIMED, Status, next_status
from holdfast.core.turn import GENESIS, Turn
from holdfast.errors import CorruptJournal, HoldfastError


class Run(Mailbox, msgspec.Struct, omit_defaults=True, gc=False):
    """One run, folded from its journal. The last two fields follow from `steps` and are not stored: every turn needs
    them, and searching thousands of open steps is slow."""

    workflow: str = ""
    version: str = ""
    code: str = ""
    style: str = ""
    codec: str = ""
    status: Status = Status.PENDING
    queue: str = "default"
    priority: int = 0
    key: str = ""
    parent: str = ""
    parent_key: str = ""
    root: str = ""
    on_cancel: str = ""
    retried_from: str = ""
    trace: str = ""
    keep: timedelta | None = None
    available_at: datetime | None = None
    deadline: datetime | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    updated_at: datetime | None = None
    ended_at: datetime | None = None
    worker: str = ""
    ordinal: int = 0
    origin: int = 1  # the row its arguments stand in: after `continue_as` that one
    epoch: int = 0
    checksum: bytes = GENESIS
    steps: dict[str, OpenStep] = {}
    waits: dict[str, OpenWait] = {}
    left: dict[str, str] = {}  # open children of earlier lives that a cancel is to reach, by id: their workflow
    undoable: dict[str, str] = {}
    attempts: int = 0
    passes: int = 1
    round: Round = ""
    retry: e.RetryPlanned | None = None
    cancel: e.CancelRequested | None = None
    past_deadline: e.DeadlineReached | None = None
    paused: e.Paused | None = None
    end: e.Terminal | None = None
    retries: dict[str, datetime] = {}  # when open steps that failed and are wanted begin their next attempt, by key
    abandoned: int = 0  # how many of the open steps are no longer wanted

    def apply(self, turn: Turn) -> None:
        if turn.ordinal != self.ordinal + 1:
            raise CorruptJournal(f"run {self.id}: row {self.ordinal + 1} is missing, found {turn.ordinal}")
        if self.end is not None:
            raise CorruptJournal(f"run {self.id}: row {turn.ordinal} follows the run's end in row {self.ordinal}")
        self.created_at = self.created_at or turn.at
        self.ordinal = turn.ordinal
        self.epoch = turn.epoch
        self.checksum = turn.checksum
        self.updated_at = turn.at
        last: list[e.AnyEvent] = []
        for event in turn.events:
            kind = type(event)
            if kind is e.Released or kind is e.Limited:
                last.append(event)
                continue
            handler = _HANDLERS.get(kind)
            if handler is not None:
                handler(self, event, turn.at)
            if (tag := _STATUS_TAGS.get(kind)) is not None:
                self._move(tag)
        for event in last:
            _HANDLERS[type(event)](self, event, turn.at)

    def _move(self, tag: str) -> None:
        if tag == "resumed" and self.status is Status.PAUSED and self.started_at is None:
            tag = UNCLAIMED
        try:
            self.status = next_status(self.status, tag)
        except HoldfastError as error:
            raise CorruptJournal(f"run {self.id}: row {self.ordinal}: {error}") from error

    @property
    def in_flight(self) -> list[OpenStep]:
        """Steps whose bodies may be running, in the order in which they were asked for."""
        return [step for step in self.steps.values() if step.in_flight]

    @property
    def identity(self) -> str:
        """What keys are unique within: the run and, after `continue_as`, the row of the restart."""
        return self.id if self.origin == 1 else f"{self.id}#{self.origin}"

    @property
    def grace_until(self) -> datetime | None:
        """When the clean-up of a cancelled or overdue run must have ended."""
        if self.cancel is None and self.past_deadline is None:  # asked every turn
            return None
        limits = [x.grace_until for x in (self.cancel, self.past_deadline) if x is not None and x.grace_until]
        return min(limits, default=None)


def _open(run: Run, key: str) -> OpenStep:
    step = run.steps.get(key)
    if step is None:
        raise CorruptJournal(f"run {run.id}: row {run.ordinal} names step {key!r}, which is not open")
    return step


def _settle(run: Run, key: str) -> OpenStep | None:
    """Removes the step from the open ones."""
    step = run.steps.pop(key, None)
    if step is not None and step.is_abandoned:
        run.abandoned -= 1
    elif run.retries:
        run.retries.pop(key, None)
    return step


# -- one small function an event ---------------------------------------------------------------------------------------


def _started(run: Run, event: e.Started, at: datetime) -> None:
    run.workflow, run.version, run.code, run.style = event.workflow, event.version, event.code, event.style
    run.codec = event.codec
    run.queue, run.priority, run.key = event.queue, event.priority, event.key
    run.parent, run.parent_key, run.root = event.parent, event.parent_key, event.root or run.id
    run.on_cancel, run.retried_from, run.keep = event.on_cancel, event.retried_from, event.keep
    run.available_at, run.deadline = event.available_at or at, event.deadline
    run.attributes = dict(event.attributes)
    run.round = "free" if event.in_rounds else ""
    run.trace, run.after, run.latest, run.most = event.trace, event.after, event.latest, event.most


def _compacted(run: Run, event: e.Compacted, at: datetime) -> None:
    raise CorruptJournal(f"run {run.id}: row {run.ordinal} replaces the rows before it, but they are still there")


def _adopted(run: Run, event: e.Adopted, at: datetime) -> None:
    asked: dict[str, e.StepScheduled] = {}
    for fact in event.facts:
        match fact:
            case e.StepScheduled():
                asked[fact.key] = fact
            case e.StepCompleted() if fact.key in asked and asked[fact.key].undo:
                run.undoable[fact.key] = asked[fact.key].step or fact.key
            case e.SignalReceived():
                run.buffered[fact.message] = fact
            case e.WaitEnded():
                run.buffered.pop(fact.message, None)
            case _:
                pass


def _claimed(run: Run, event: e.Claimed, at: datetime) -> None:
    run.worker = event.worker
    run.started_at = run.started_at or at
    for key in event.restarted:
        _open(run, key).attempt += 1
    for key in event.begun:
        _open(run, key).is_unstarted = False
    run.attempts += len(event.restarted)


def _released(run: Run, event: e.Released, at: datetime) -> None:
    run.worker = ""
    if event.next_round:
        run.round = "due"
    for key in event.unstarted:
        step = run.steps.get(key)
        if step is not None:  # it may have been settled, or forgotten by `continue_as`, in the same turn
            step.is_unstarted = True


def _held_back(run: Run, event: e.HeldBack, at: datetime) -> None:
    held_back(run.steps, event, at)
    run.attempts += 1


def _scheduled(run: Run, event: e.StepScheduled, at: datetime) -> None:
    step = OpenStep(event.key, event.step or event.key, at, undo=event.undo, undoes=event.undoes)
    earlier = _settle(run, event.key) if event.key in run.steps else None
    if earlier is not None:  # an earlier pass left it without an outcome: attempts continue, and so does the budget
        step.attempt, step.failures = earlier.attempt + 1, earlier.failures
        step.of, step.last, step.progress = earlier.of, earlier.last, earlier.progress
    run.steps[event.key] = step
    run.attempts += not event.uncounted
    if run.round == "free":
        run.round = "used"


def _completed_step(run: Run, event: e.StepCompleted, at: datetime) -> None:
    step = _settle(run, event.key)
    if step is None:
        return
    if step.undo:
        run.undoable[event.key] = step.step
    if step.undoes:
        run.undoable.pop(step.undoes, None)


def _attempt_failed(run: Run, event: e.AttemptFailed, at: datetime) -> None:
    step = run.steps.get(event.key)
    if step is not None:
        step.failures += 1
        step.attempt, step.of, step.last, step.retry_at = event.attempt, event.of, event.failure, event.retry_at
        step.progress = bytes(event.progress)
        if not step.is_abandoned:
            run.retries[event.key] = event.retry_at


def _attempt_started(run: Run, event: e.AttemptStarted, at: datetime) -> None:
    step = _open(run, event.key)
    step.attempt, step.retry_at = event.attempt, None
    run.retries.pop(event.key, None)
    run.attempts += 1


def _failed_step(run: Run, event: e.StepFailed, at: datetime) -> None:
    _settle(run, event.key)


def _abandoned(run: Run, event: e.StepAbandoned, at: datetime) -> None:
    step = run.steps.get(event.key)
    if step is not None and not step.is_abandoned:
        step.is_abandoned = True
        run.abandoned += 1
        run.retries.pop(event.key, None)


def _sleep(run: Run, event: e.SleepStarted, at: datetime) -> None:
    run.waits[event.key] = OpenWait(event.key, "sleep", event.key, at, event.until)
    run.attempts += 1


def _wait(run: Run, event: e.WaitStarted, at: datetime) -> None:
    run.waits[event.key] = OpenWait(event.key, event.kind, event.name, at, event.until)
    run.attempts += 1


def _child(run: Run, event: e.ChildStarted, at: datetime) -> None:
    run.left.pop(event.run, None)  # asked for again
    run.waits[event.key] = OpenWait(
        event.key, "child", event.workflow, at, event.until, event.run, event.on_cancel, event.awaited, event.in_rounds
    )
    run.attempts += not event.uncounted


def _settled(run: Run, event: e.TimerFired | e.WaitEnded | e.TopicReceived, at: datetime) -> None:
    wait = run.waits.get(event.key)
    if wait is not None and wait.kind == "child":
        wait.awaited = False  # the wait is over, the child continues
    else:
        run.waits.pop(event.key, None)
    if isinstance(event, e.WaitEnded):
        run.buffered.pop(event.message, None)


def _child_ended(run: Run, event: e.ChildEnded, at: datetime) -> None:
    wait = run.waits.get(event.key)
    if wait is not None and wait.run == event.run:  # else a child from before `continue_as`
        del run.waits[event.key]
    run.left.pop(event.run, None)


def _signal(run: Run, event: e.SignalReceived, at: datetime) -> None:
    if event.name == ROUND and event.sender == run.parent:
        run.round = after_signal(event) if run.round else ""
    else:
        run.buffered[event.message] = event


def _kept(run: Run, event: e.Kept, at: datetime) -> None:
    for key in event.keys:
        run.undoable.pop(key, None)


def _cancel(run: Run, event: e.CancelRequested, at: datetime) -> None:
    run.cancel = run.cancel or event


def _deadline(run: Run, event: e.DeadlineReached, at: datetime) -> None:
    run.past_deadline = event


def _paused(run: Run, event: e.Paused, at: datetime) -> None:
    run.paused = event
    run.worker = ""


def _resumed(run: Run, event: e.Resumed, at: datetime) -> None:
    run.paused = None


def _retry(run: Run, event: e.RetryPlanned, at: datetime) -> None:
    run.retry = event
    run.worker = ""
    for step in run.steps.values():
        step.is_abandoned = True
    run.abandoned = len(run.steps)
    run.retries.clear()


def _pass(run: Run, event: e.PassStarted, at: datetime) -> None:
    run.retry = None
    run.passes = event.number


def _continued(run: Run, event: e.Continued, at: datetime) -> None:
    run.workflow, run.version = event.workflow, event.version
    run.worker = ""
    run.steps.clear()
    run.retries.clear()
    run.abandoned = 0
    run.left.update({wait.run: wait.name for wait in run.waits.values() if wait.kind == "child" and wait.on_cancel})
    run.waits.clear()
    run.undoable.clear()
    run.attempts, run.passes, run.retry = 0, 1, None
    run.forget_taken()
    run.origin = run.ordinal


def _ended(run: Run, event: e.Terminal, at: datetime) -> None:
    run.end = event
    run.ended_at = at


_HANDLERS: dict[type[Any], Callable[[Run, Any, datetime], None]] = {
    e.Started: _started,
    e.Compacted: _compacted,
    e.Adopted: _adopted,
    e.Claimed: _claimed,
    e.StepScheduled: _scheduled,
    e.StepCompleted: _completed_step,
    e.AttemptFailed: _attempt_failed,
    e.HeldBack: _held_back,
    e.Limited: lambda run, event, at: limited(run.steps, event, at),
    e.Released: _released,
    e.AttemptStarted: _attempt_started,
    e.StepFailed: _failed_step,
    e.StepAbandoned: _abandoned,
    e.SleepStarted: _sleep,
    e.WaitStarted: _wait,
    e.WaitEnded: _settled,
    e.TimerFired: _settled,
    e.TopicReceived: _settled,
    e.SignalReceived: _signal,
    e.UpdateReceived: mailbox.received,
    e.Answered: mailbox.answered,
    e.AttributesSet: mailbox.attributes_set,
    e.MessageDropped: mailbox.dropped,
    e.Redacted: mailbox.redacted,
    e.ChildStarted: _child,
    e.ChildEnded: _child_ended,
    e.PredecessorEnded: mailbox.preceded,
    e.InputGiven: mailbox.given,
    e.Exposed: mailbox.exposed,
    e.Kept: _kept,
    e.CancelRequested: _cancel,
    e.DeadlineReached: _deadline,
    e.Paused: _paused,
    e.Resumed: _resumed,
    e.RetryPlanned: _retry,
    e.PassStarted: _pass,
    e.Continued: _continued,
    e.Completed: _ended,
    e.Failed: _ended,
    e.Cancelled: _ended,
}

_STATUS_TAGS: dict[type[Any], str] = {
    kind: str(kind.__struct_config__.tag)
    for kind in (e.Claimed, e.Paused, e.Resumed, e.Continued, e.Completed, e.Failed, e.Cancelled)
}
