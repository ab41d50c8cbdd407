"""How a body ended, and how outcomes look to an author: conversion between data and exceptions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from holdfast.authoring.script.calls import DurableCall
from holdfast.authoring.script.exits import ContinueRun
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.failure import Failure, from_exception, rebuild
from holdfast.core.payload import Shape
from holdfast.core.plurals import counted
from holdfast.core.retry import Retry
from holdfast.core.specs import Check, StepSpec, WorkflowSpec
from holdfast.core.step import LIMITED, UNKNOWN
from holdfast.errors import (
    CompensationFailed,
    DeadlineExceeded,
    HoldfastError,
    LimitReached,
    NotAwaited,
    NotDecodable,
    OutcomeUnknown,
    Permanent,
    RunCancelled,
    RunFailed,
    StepFailed,
    UsageError,
)

if TYPE_CHECKING:
    from holdfast.authoring.script.exchange import Exchange

_KINDS: dict[str, type[StepFailed]] = {UNKNOWN: OutcomeUnknown, LIMITED: LimitReached}
_FROM_STEP = "__holdfast_from_step__"


def error_of(event: e.StepFailed, step: StepSpec) -> BaseException:
    """The error that the author sees: a declared exception unchanged, everything else as `StepFailed`."""
    failure = event.failure
    error = rebuild(failure, step.raises)
    if error is None:
        kind = _KINDS.get(failure.type, StepFailed)
        error = kind(
            f"step {step.name} failed after {counted(event.attempts, 'attempt')}: {failure.type}: {failure.message}",
            step=step.name,
            attempts=event.attempts,
            type=failure.type,
            message=failure.message,
            traceback=failure.traceback,
        )
    return marked(error)


def marked(error: BaseException) -> BaseException:
    """Marks the error of a step or child: if it leaves the body unchanged, retrying the body would not help."""
    error.__dict__[_FROM_STEP] = True
    return error


def run_error(ended: e.ChildEnded, spec: WorkflowSpec) -> BaseException:
    """The error that a parent, or `result()`, gets for a run that did not complete."""
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


def objection_of(shape: Shape[Any], checks: Sequence[Check], event: e.UpdateReceived) -> str | None:
    """Why a question is refused: its value has the wrong type, or the first check that refuses it says so. An error of
    a check refuses too."""
    try:
        value = shape.decode(event.value)
    except NotDecodable as error:
        return f"its value does not fit: {error}"
    for check in checks:
        try:
            why = check(value)
        except Exception as error:  # noqa: BLE001 the author's code
            why = f"{type(error).__name__}: {error}"
        if why is not None:
            return str(why)
    return None


def ending(program: Exchange, main: asyncio.Task[Any], unawaited: Sequence[DurableCall[Any]]) -> c.Command:
    """The command with which a program ends. A cancel has priority over every other end, then the deadline."""
    error = _error_of(main, program.loop.callback_errors)
    if program.cancel is not None:
        reason = f"{program.cancel.reason}{_failed_cleanup(error)}".strip()
        return c.Stop(reason=reason, actor=program.cancel.actor)
    if program.past_deadline:
        exceeded = DeadlineExceeded(f"the run's deadline passed{_failed_cleanup(error)}")
        return c.Fail(failure=from_exception(exceeded), from_step=True)
    if isinstance(error, ContinueRun) and program.continuing is not None:
        return program.continuing
    if error is not None:
        from_step = _is_from_step(error) or not _is_retried(program.spec.retry, error)
        return c.Fail(failure=from_exception(error, declared=program.spec.raises), from_step=from_step)
    if unawaited:
        failure = from_exception(NotAwaited(_say_unawaited(unawaited, is_async=program.spec.is_async)))
        return c.Fail(failure=failure, from_step=True)
    try:
        value = program.spec.result.encode(main.result(), f"result of {program.spec.name}")
    except HoldfastError as refused:
        return c.Fail(failure=from_exception(refused), from_step=True)
    return c.Complete(value=value)


def _is_retried(policy: Retry, error: BaseException) -> bool:
    """Whether the workflow's policy retries that error. An error of its predicate means no."""
    try:
        return policy.wants(error) is not False
    except Exception:  # noqa: BLE001 the author's code
        return False


def _say_unawaited(calls: Sequence[DurableCall[Any]], *, is_async: bool) -> str:
    shown = "; ".join(f"{call.key} at {call.place}" for call in calls[:3])
    more = f" and {len(calls) - 3} more" if len(calls) > 3 else ""
    cure = (
        "Write `await` before the call, or remove it."
        if is_async
        else "In a sync workflow call a `def` step, or wait for the call with gather(…) or wait(…) of holdfast.sync."
    )
    return f"called but never awaited: {shown}{more}. {cure}"


def _error_of(main: asyncio.Task[Any], stray: Sequence[BaseException]) -> BaseException | None:
    """The error that ended the body: its own, or one from a callback that is not awaited."""
    if main.done():
        error = asyncio.CancelledError() if main.cancelled() else main.exception()
        if error is not None:
            return error
    return stray[0] if stray else None


def _failed_cleanup(error: BaseException | None) -> str:
    if error is None or isinstance(error, asyncio.CancelledError | ContinueRun):
        return ""
    return f" (the clean-up failed: {type(error).__name__}: {error})"


def _is_from_step(error: BaseException) -> bool:
    """Whether retrying the whole body could not help: the final error of a step or child, or a bug in the code."""
    if isinstance(error, BaseExceptionGroup):
        members = cast("BaseExceptionGroup[BaseException]", error).exceptions
        return any(_is_from_step(member) for member in members)
    if isinstance(error, CompensationFailed) and error.__cause__ is not None:
        return _is_from_step(error.__cause__)
    marked = error.__dict__.pop(_FROM_STEP, False)
    return marked or isinstance(error, StepFailed | RunFailed | RunCancelled | UsageError | Permanent)
