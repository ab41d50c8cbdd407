"""How a body ended, and how outcomes look to an author: from data to exceptions and back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.authoring.script.calls import DurableCall
from holdfast.authoring.script.sagas import ContinueRun
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.failure import Failure, from_exception, rebuild
from holdfast.core.specs import WorkflowSpec
from holdfast.core.step import UNKNOWN
from holdfast.errors import (
    DeadlineExceeded,
    HoldfastError,
    NotAwaited,
    OutcomeUnknown,
    RunCancelled,
    RunFailed,
    StepFailed,
)

if TYPE_CHECKING:
    from holdfast.authoring.script.program import ScriptProgram

_FROM_STEP = "__holdfast_from_step__"


def error_of(event: e.StepFailed, command: c.RunStep) -> BaseException:
    """What the author sees: a declared exception as itself, everything else as `StepFailed`."""
    failure = event.failure
    error = rebuild(failure, command.spec.raises)
    if error is None:
        kind = OutcomeUnknown if failure.type == UNKNOWN else StepFailed
        error = kind(
            f"step {command.spec.name} failed after {event.attempts} attempt(s): {failure.type}: {failure.message}",
            step=command.spec.name,
            attempts=event.attempts,
            type=failure.type,
            message=failure.message,
            traceback=failure.traceback,
        )
    setattr(error, _FROM_STEP, True)
    return error


def run_error(ended: e.ChildEnded, spec: WorkflowSpec) -> BaseException:
    """What a parent, or `result()`, sees of a run that did not complete."""
    if ended.status == "cancelled":
        reason = ended.failure.message if ended.failure else ""
        return RunCancelled(
            f"run {ended.run} of {spec.label} was cancelled{': ' + reason if reason else ''}",
            run_id=ended.run,
            reason=reason,
        )
    failure = ended.failure or Failure(type="Exception", message="")
    declared = rebuild(failure, spec.raises)
    if declared is not None:
        return declared
    return RunFailed(
        f"run {ended.run} of {spec.label} failed: {failure.type}: {failure.message}",
        run_id=ended.run,
        type=failure.type,
        message=failure.message,
        traceback=failure.traceback,
    )


def ending(program: ScriptProgram, main: asyncio.Task[Any], unawaited: str) -> c.Command:
    """The command with which a program ends. Cancel wins over every other end."""
    error = _error_of(main)
    if isinstance(error, ContinueRun) and program.continuing is not None and program.cancel is None:
        return program.continuing
    if program.cancel is not None:
        reason = program.cancel.reason
        if error is not None and not isinstance(error, asyncio.CancelledError | ContinueRun):
            reason = f"{reason} (the clean-up failed: {type(error).__name__}: {error})".strip()
        return c.Stop(reason=reason, actor=program.cancel.actor)
    if program.past_deadline:
        return c.Fail(failure=from_exception(DeadlineExceeded("the run's deadline passed")), from_step=True)
    if error is not None:
        failure = from_exception(error, declared=program.spec.raises)
        return c.Fail(failure=failure, from_step=_is_from_step(error))
    if unawaited:
        return c.Fail(failure=from_exception(NotAwaited(unawaited)), from_step=True)
    try:
        value, _ = program.spec.result.round_trip(main.result(), f"result of {program.spec.name}")
    except HoldfastError as refused:
        return c.Fail(failure=from_exception(refused), from_step=True)
    return c.Complete(value=value)


def say_unawaited(calls: Sequence[DurableCall[Any]]) -> str:
    """What to say of calls that nobody awaited; empty if there are none."""
    if not calls:
        return ""
    shown = "; ".join(f"{call.key} at {call.place}" for call in calls[:3])
    more = f" and {len(calls) - 3} more" if len(calls) > 3 else ""  # noqa: PLR2004 three are shown
    return f"called but never awaited: {shown}{more}. Write `await` before the call, or do not make it."


def _error_of(main: asyncio.Task[Any]) -> BaseException | None:
    if main.cancelled():
        return asyncio.CancelledError()
    return main.exception()


def _is_from_step(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(_is_from_step(x) for x in error.exceptions)
    return getattr(error, _FROM_STEP, False) or isinstance(error, StepFailed)
