"""What a turn becomes: rules that stand above the program's own wishes. Pure."""

from __future__ import annotations

import sys
from collections.abc import Container, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.failure import from_exception
from holdfast.core.instants import later
from holdfast.core.program import Program
from holdfast.core.rounds import ROUND, must_wait
from holdfast.core.run import Run
from holdfast.core.specs import Settings, WorkflowSpec
from holdfast.core.step import limit_exceeded, on_workflow_failed, outcome_unknown
from holdfast.errors import DeadlineExceeded, Diverged, NeverWaits
from holdfast.turn.draft import Draft

COUNTED = frozenset((e.StepScheduled, e.SleepStarted, e.WaitStarted, e.ChildStarted, e.AttemptStarted))
"""What counts against the step limit."""

NOT_KEPT = (e.Claimed, e.Released, e.AttemptStarted, e.DeadlineReached, e.TimerFired)
"""Of the inputs of a refused turn: what time brought it brings again, by the clock of the turn that follows."""


class Rules(Protocol):
    """What deciding needs to know of the engine."""

    settings: Settings

    def chance(self) -> float:
        """A number in [0, 1)."""
        ...

    def spec_of(self, run: Run) -> WorkflowSpec:
        """The definition of a run it holds."""
        ...


def decide(run: Run, at: datetime, inputs: list[e.AnyEvent], commands: Sequence[c.Command], rules: Rules) -> Draft:
    """The draft of a turn: what came in, and what becomes of what the program asked for."""
    draft = Draft(at, inputs, commands=commands)
    for command in commands:
        if isinstance(command, c.Fail):
            draft.outputs.append(_failed(run, command, draft, rules))
        else:
            draft.outputs.append(c.record(command, draft.blobs))
    limit = rules.settings.step_limit
    if limit is not None:
        asked = len([x for x in (*inputs, *draft.outputs) if type(x) in COUNTED])
        if asked and run.attempts + asked > limit and run.attempts + asked > (limit := _limit_of(run, limit, rules)):
            failure = limit_exceeded(run.attempts + asked, limit)
            draft.outputs = [e.Failed(failure=failure, imposed=True)]
            draft.commands = ()
            draft.inputs = [x for x in inputs if not isinstance(x, e.AttemptStarted)]
    if draft.is_terminal:
        draft.outputs[-1] = _with_undone(run, draft)
    return draft


def taken_up(
    run: Run, commands: Mapping[str, c.RunStep], worker: str, *, but: Container[str] = (), unbegun: Container[str] = ()
) -> tuple[list[e.AnyEvent], e.Claimed, list[str]]:
    """What becomes of steps in flight at a claim: outcomes of those that are not tried again, the claim, and the keys
    of those whose bodies start. In a session that reads its journal again, `but` are those whose bodies still run or
    have landed, and `unbegun` those whose bodies had not begun."""
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


def waits_for_round(run: Run, inputs: Sequence[e.AnyEvent]) -> bool:
    """Whether steps that have not begun are for the run's next round."""
    return must_wait(run.round, inputs, is_stopping=run.cancel is not None or run.past_deadline is not None)


def drain_by_round(run: Run, draft: Draft, drain: str) -> str:
    """Why the run is to be given back as soon as it falls quiet: steps for the next round do not begin in this one."""
    is_waiting = waits_for_round(run, draft.inputs)
    if is_waiting and not drain and any(isinstance(x, e.StepScheduled) for x in draft.outputs):
        return ROUND
    return "" if drain == ROUND and not is_waiting else drain


def _limit_of(run: Run, limit: int, rules: Rules) -> int:
    """A limit is for what might go on for ever: what a flow declares comes on top, and a batch asks for its items."""
    spec = rules.spec_of(run)
    return sys.maxsize if spec.is_unlimited else limit + spec.declared


def impose_end(run: Run, at: datetime, inputs: list[e.AnyEvent]) -> Draft:
    """The clean-up of a cancelled or overdue run took longer than its grace."""
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


def _failed(run: Run, command: c.Fail, draft: Draft, rules: Rules) -> e.AnyEvent:
    if command.from_step:
        return e.Failed(failure=command.failure)
    policy = rules.spec_of(run).retry
    # A pass that fails in its first turn is not in the fold yet.
    passes = max([run.passes, *(x.number for x in draft.inputs if isinstance(x, e.PassStarted))])
    return on_workflow_failed(command.failure, policy, passes, draft.at, rules.chance(), run.deadline)


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
    """An end says which steps it does not wait for. So no body has to be stopped before it is durable."""
    if keys and draft.is_terminal:
        draft.outputs[-1] = msgspec.structs.replace(draft.outputs[-1], left=keys)


def after_refusal(refused: Sequence[e.AnyEvent], since: Sequence[e.AnyEvent]) -> list[e.AnyEvent]:
    """The inputs of a refused turn and what came since, in the order to take them: as they came, cancels first."""
    cancels = [x for x in since if isinstance(x, e.CancelRequested)]
    return [*cancels, *refused, *(x for x in since if not isinstance(x, e.CancelRequested))]


def pause_reason(error: Exception | None) -> e.PauseReason:
    """Why a run whose program cannot go on is paused; no error: because it seems to end its workers."""
    if error is None:
        return "quarantined"
    if isinstance(error, Diverged):
        return "diverged"
    return "never waits" if isinstance(error, NeverWaits) else "undecodable"


def delivered(program: Program, inputs: Sequence[e.AnyEvent]) -> list[e.AnyEvent]:
    """What the program waits for and has arrived: the turn that sent it is durable, and neither the inbox, which has
    been read since, nor the inputs say otherwise."""
    told = {x.key for x in inputs if isinstance(x, e.SendSettled)}
    return [e.SendSettled(key=key, to=to) for key, to in program.awaited_sends().items() if key not in told]


def brought_by_time(run: Run, program: Program, at: datetime, grace: timedelta) -> list[e.AnyEvent]:
    """Retries, the deadline and timers that have come due, in the order in which they are taken."""
    due: list[e.AnyEvent] = []
    for key, retry_at in run.retries.items():
        if retry_at <= at:
            due.append(e.AttemptStarted(key=key, attempt=run.steps[key].attempt + 1))
    if run.deadline is not None and at >= run.deadline and run.past_deadline is None and run.cancel is None:
        due.append(e.DeadlineReached(grace_until=later(at, grace)))
    for key in program.due_timers(at):
        due.append(e.TimerFired(key=key))  # noqa: PERF401
    return due
