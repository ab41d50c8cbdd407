"""The rules of a turn, which take precedence over the program. Pure."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.failure import Failure, from_exception
from holdfast.core.instants import later
from holdfast.core.opened import OpenStep
from holdfast.core.program import Program
from holdfast.core.redaction import Redaction
from holdfast.core.run import Run
from holdfast.core.specs import Settings, WorkflowSpec
from holdfast.core.step import STOPPED, limit_exceeded, on_attempt_failed, on_workflow_failed, outcome_unknown
from holdfast.errors import DeadlineExceeded, Diverged, NeverWaits
from holdfast.ports.parts import TurnParts
from holdfast.turn.draft import Draft
from holdfast.turn.outcome import Broke, Outcome, Succeeded

COUNTED = frozenset((e.StepScheduled, e.SleepStarted, e.WaitStarted, e.ChildStarted, e.AttemptStarted))
"""Commands that count against the step limit."""

NOT_KEPT = (e.Claimed, e.Released, e.Limited, e.AttemptStarted, e.DeadlineReached, e.TimerFired)
"""Inputs of a refused turn that come from time: they come again, by the clock of the next turn."""


class Rules(msgspec.Struct, frozen=True, eq=False):
    """What the rules need to know."""

    settings: Settings
    worker: str
    is_exclusive: bool  # the store has one write transaction at a time
    chance: Callable[[], float]  # a number in [0, 1)
    spec_of: Callable[[Run], WorkflowSpec]  # the definition of a run that is held


def decide(
    run: Run,
    at: datetime,
    inputs: list[e.AnyEvent],
    commands: Sequence[c.Command],
    rules: Rules,
    limit: int | None,
) -> Draft:
    """The draft of a turn: its inputs, and the outputs that follow from the program's commands. `limit`: see
    `step_limit`."""
    outputs: list[e.AnyEvent] = []
    blobs: dict[str, bytes] = {}
    parts: list[TurnParts] = []
    for command in commands:
        if type(command) is c.Fail:
            outputs.append(_failed(run, command, at, inputs, rules))
        elif type(command) is c.Emit:
            _emit(run, command, inputs, outputs, parts)
        else:
            outputs.append(c.record(command, blobs))
    if limit is not None and run.attempts + len(inputs) + len(outputs) > limit:  # else it cannot be reached
        asked = len([x for x in (*inputs, *outputs) if type(x) in COUNTED and not _is_uncounted(x)])
        if asked and run.attempts + asked > limit:
            outputs = [e.Failed(failure=limit_exceeded(run.attempts + asked, limit), imposed=True)]
            commands, parts = (), []
            inputs = [x for x in inputs if not isinstance(x, e.AttemptStarted)]
    draft = Draft(at, inputs, outputs, commands, blobs, parts)
    if draft.is_terminal and type(outputs[-1]) is not e.Completed:
        outputs[-1] = _with_undone(run, draft)
    return draft


def _is_uncounted(event: e.AnyEvent) -> bool:
    return isinstance(event, e.StepScheduled | e.ChildStarted) and event.uncounted


def _emit(
    run: Run, command: c.Emit, inputs: Sequence[e.AnyEvent], outputs: list[e.AnyEvent], parts: list[TurnParts]
) -> None:
    """A part for a stream. Consecutive parts are one event and one row."""
    last = outputs[-1] if outputs else None
    if isinstance(last, e.Streamed) and last.name == command.name:
        outputs[-1] = e.Streamed(name=last.name, parts=last.parts + 1)
        parts[-1].values.append(command.value)
        return
    outputs.append(e.Streamed(name=command.name))
    parts.append(TurnParts(command.name, _number(run, inputs), [command.value]))


def _number(run: Run, inputs: Sequence[e.AnyEvent]) -> int:
    """The number of the pass. One that begins in this turn is not in the fold yet."""
    return max([run.passes, *(x.number for x in inputs if isinstance(x, e.PassStarted))])


def taken_up(
    run: Run, commands: Mapping[str, c.RunStep], worker: str, *, but: Container[str] = (), unbegun: Container[str] = ()
) -> tuple[list[e.AnyEvent], e.Claimed, list[str]]:
    """Decides about steps in flight at a claim: outcomes of those that are not retried, the claim, and the keys of
    those whose bodies start. In a session that reads its journal again, `but` are those whose bodies still run or have
    landed, and `unbegun` those whose bodies had not begun."""
    restarted: list[str] = []
    waiting: list[str] = []
    begun: list[str] = []
    outcomes: list[e.AnyEvent] = []
    for step in run.in_flight:
        command = commands.get(step.key)
        if command is None or step.key in but:
            continue
        if step.is_unstarted:
            begun.append(step.key)
        elif step.key in unbegun:
            waiting.append(step.key)
        elif command.spec.once:
            outcomes.append(outcome_unknown(step))
        else:
            restarted.append(step.key)
    claimed = e.Claimed(worker=worker, restarted=tuple(restarted), begun=tuple(begun))
    return outcomes, claimed, [*restarted, *begun, *waiting]


def step_limit(spec: WorkflowSpec, settings: Settings) -> int | None:
    """How many steps a run may ask for: the workflow's own limit, else the app's. What a flow declares comes on top,
    and a batch asks for its items."""
    limit = settings.step_limit if spec.step_limit is msgspec.UNSET else spec.step_limit
    return None if limit is None or spec.is_unlimited else limit + spec.declared


def impose_end(run: Run, at: datetime, inputs: list[e.AnyEvent]) -> Draft:
    """The end of a cancelled or overdue run whose clean-up took longer than its grace."""
    undone = tuple(run.undoable)
    if run.cancel is not None:
        reason = f"{run.cancel.reason} (the clean-up did not end within its grace)".strip()
        end: e.AnyEvent = e.Cancelled(reason=reason, actor=run.cancel.actor, undone=undone, imposed=True)
    else:
        end = msgspec.structs.replace(deadline_failure(), undone=undone)
    kept: list[e.AnyEvent] = [x for x in inputs if not isinstance(x, e.AttemptStarted | e.TimerFired)]
    return Draft(at, kept, [end])


def deadline_failure() -> e.Failed:
    """The end of a run whose deadline passed without its program."""
    return e.Failed(failure=from_exception(DeadlineExceeded("the run's deadline passed")), imposed=True)


def _failed(run: Run, command: c.Fail, at: datetime, inputs: Sequence[e.AnyEvent], rules: Rules) -> e.AnyEvent:
    if command.from_step:
        return e.Failed(failure=command.failure)
    policy = rules.spec_of(run).retry
    return on_workflow_failed(command.failure, policy, _number(run, inputs), at, rules.chance(), run.deadline)


def _with_undone(run: Run, draft: Draft) -> e.AnyEvent:
    end = draft.outputs[-1]
    if not isinstance(end, e.Failed | e.Cancelled):
        return end
    settled = {x.key for x in draft.inputs if isinstance(x, e.StepCompleted)}
    gone = {step.undoes for key, step in run.steps.items() if key in settled}
    kept = {key for x in draft.outputs if isinstance(x, e.Kept) for key in x.keys}
    fresh = [key for key in settled if key in run.steps and run.steps[key].undo]
    undone = tuple(key for key in (*run.undoable, *fresh) if key not in gone | kept)
    return msgspec.structs.replace(end, undone=undone)


def name_left(draft: Draft, keys: tuple[str, ...]) -> None:
    """Adds to an end the steps that it does not wait for, so that no body has to be stopped before it is durable."""
    if keys and draft.is_terminal:
        draft.outputs[-1] = msgspec.structs.replace(draft.outputs[-1], left=keys)


def begins_at(run: Run, inputs: Sequence[e.AnyEvent]) -> datetime | None:
    """When a run that has not begun is to begin: calls that join it put it off, up to a time, or bring it forward when
    there are enough of them."""
    if not inputs:
        return run.available_at
    given = [event for event in inputs if isinstance(event, e.InputGiven)]
    if run.most and 1 + run.given + len(given) >= run.most:
        return None
    times = [x for x in (run.available_at, *(event.begins_at for event in given)) if x is not None]
    begins = max(times, default=None)
    return begins if begins is None or run.latest is None else min(begins, run.latest)


def is_preceded(run: Run, inputs: Sequence[e.AnyEvent]) -> bool:
    """Whether a run that has to end before this one begins is still open."""
    ended = {event.run for event in inputs if isinstance(event, e.PredecessorEnded)}
    return not ended.issuperset(run.after)


def after_refusal(refused: Sequence[e.AnyEvent], since: Sequence[e.AnyEvent]) -> list[e.AnyEvent]:
    """The inputs of a refused turn and what came since, in the order to take them: as they came, cancels first."""
    cancels = [x for x in since if isinstance(x, e.CancelRequested)]
    return [*cancels, *refused, *(x for x in since if not isinstance(x, e.CancelRequested))]


def place_of_update(inputs: Sequence[e.AnyEvent]) -> int:
    """The position of an update among the inputs of a turn: before outcomes, and after earlier messages."""
    kinds = (e.CancelRequested, e.SignalReceived, e.TopicReceived, e.MessageDropped)
    return max((place + 1 for place, event in enumerate(inputs) if isinstance(event, kinds)), default=0)


def pause_reason(error: Exception | None) -> e.PauseReason:
    """Why a run whose program cannot continue is paused; without an error: because it seems to kill its workers."""
    if error is None:
        return "quarantined"
    if isinstance(error, Diverged):
        return "diverged"
    return "never waits" if isinstance(error, NeverWaits) else "undecodable"


def stuck(where: str) -> e.Paused:
    """The pause of a run that nothing can wake."""
    detail = (
        f"nothing can wake it: its code waits at {where}, and no step, timer, signal, topic or child is open. An "
        "asyncio.Event that nothing sets, a future of another thread or a lock that another run holds never comes back "
        "here. Wait for a Signal, a step or a sleep instead, and resume the run; or cancel it."
    )
    return e.Paused(reason="stuck", detail=detail)


def delivered(program: Program, inputs: Sequence[e.AnyEvent]) -> list[e.AnyEvent]:
    """Receipts of signals that have arrived: the turn that sent them is durable, and neither the inbox, which was read
    since, nor the inputs say otherwise."""
    told = {x.key for x in inputs if isinstance(x, e.SendSettled)}
    return [e.SendSettled(key=key, to=to) for key, to in program.awaited_sends().items() if key not in told]


def brought_by_time(run: Run, timers: Sequence[str], at: datetime, grace: timedelta) -> list[e.AnyEvent]:
    """Due retries, the deadline and timers, in the order in which they are taken."""
    due: list[e.AnyEvent] = []
    for key, retry_at in run.retries.items():
        if retry_at <= at:
            due.append(e.AttemptStarted(key=key, attempt=run.steps[key].attempt + 1))
    if run.deadline is not None and at >= run.deadline and run.past_deadline is None and run.cancel is None:
        due.append(e.DeadlineReached(grace_until=later(at, grace)))
    due += [e.TimerFired(key=key) for key in timers]
    return due


# -- outcomes of bodies ------------------------------------------------------------------------------------------------


def redacted(outcome: Outcome, redaction: Redaction) -> Outcome:
    """The outcome without the run's secrets."""
    if redaction and isinstance(outcome, Broke):
        return msgspec.structs.replace(outcome, failure=redaction.failure(outcome.failure), error=None)
    return outcome


def event_of(
    run: Run,
    command: c.RunStep,
    outcome: Outcome,
    progress: bytes | None,
    stopped: str | None,
    at: datetime,
    chance: Callable[[], float],
) -> e.AnyEvent | None:
    """The journal's event for an outcome; None if there is none. `stopped` is why the body was asked to end, None if it
    was not."""
    step = run.steps.get(command.key)
    if step is None:
        return None
    if isinstance(outcome, Succeeded):
        return e.StepCompleted(key=command.key, value=msgspec.Raw(outcome.value))
    failure = _failure_of(outcome, stopped, is_wanted=not step.is_abandoned)
    if failure is None:
        return None
    if outcome.limit and outcome.not_before is not None and not step.is_abandoned:
        until = later(at, outcome.not_before)
        return e.HeldBack(key=command.key, attempt=step.attempt, limit=outcome.limit, until=until)
    event = on_attempt_failed(
        step,
        failure,
        command.retry,
        at,
        chance(),
        is_final=outcome.is_final or step.is_abandoned,
        not_before=outcome.not_before,
        deadline=run.deadline,
    )
    if progress is not None and isinstance(event, e.AttemptFailed):
        return msgspec.structs.replace(event, progress=msgspec.Raw(progress))
    return event


def never_began(step: OpenStep) -> e.StepFailed:
    """The outcome of a step that was abandoned before its body began."""
    failure = Failure(type=STOPPED, message="abandoned before its body began")
    return e.StepFailed(key=step.key, failure=failure, attempts=step.attempt)


def _failure_of(outcome: Broke, stopped: str | None, *, is_wanted: bool) -> Failure | None:
    """The failure of a stopped body; None if the run's end stopped it: then it has no outcome, and the row names it."""
    if outcome.failure.type != STOPPED or not is_wanted:
        return outcome.failure
    if stopped is None:
        return Failure(type="CancelledError", message="the body cancelled itself")
    if stopped.startswith("timed out"):
        return Failure(type="TimeoutError", message=f"the attempt {stopped}")
    return None
