"""What follows from the outcome of an attempt. Budgets count failed attempts of a key, not claims, sleeps or
crashes."""

from __future__ import annotations

from datetime import datetime, timedelta

from holdfast.core import events as e
from holdfast.core.durations import format_duration
from holdfast.core.failure import Failure
from holdfast.core.instants import later
from holdfast.core.opened import OpenStep
from holdfast.core.retry import Retry

UNKNOWN = "OutcomeUnknown"
STOPPED = "Stopped"
LIMITED = "LimitReached"


def on_attempt_failed(
    step: OpenStep,
    failure: Failure,
    policy: Retry,
    now: datetime,
    jitter: float,
    *,
    is_final: bool = False,
    not_before: timedelta | None = None,
    deadline: datetime | None = None,
) -> e.AttemptFailed | e.StepFailed:
    """The event that follows a failed attempt: another one later, or the step's last failure.

    If the retry would come at or after the run's deadline, the step fails with its own error.
    """
    failures = step.failures + 1
    retry_at = None if is_final else policy.next_at(failures, now, jitter)
    if retry_at is not None and not_before is not None:
        retry_at = max(retry_at, later(now, not_before))
    if retry_at is None or (deadline is not None and retry_at >= deadline):
        return e.StepFailed(key=step.key, failure=failure, attempts=step.attempt)
    return e.AttemptFailed(
        key=step.key, attempt=step.attempt, failure=failure, retry_at=retry_at, of=policy.attempts or None
    )


def cut_off(key: str, step: str, attempt: int) -> e.StepFailed:
    """The failure of a once=True step whose only attempt began and whose end is unknown."""
    message = f"step {step} was cut off; it is declared once=True, so it is not tried again"
    return e.StepFailed(key=key, failure=Failure(type=UNKNOWN, message=message), attempts=attempt)


def outcome_unknown(step: OpenStep) -> e.StepFailed:
    """A once=True step that was in flight when its worker disappeared."""
    return cut_off(step.key, step.step, step.attempt)


def on_workflow_failed(
    failure: Failure, policy: Retry, passes: int, now: datetime, jitter: float, deadline: datetime | None
) -> e.RetryPlanned | e.Failed:
    """The event that follows an error that left the body outside of any step."""
    at = policy.next_at(passes, now, jitter)
    if at is None or (deadline is not None and at >= deadline):
        return e.Failed(failure=failure)
    return e.RetryPlanned(failure=failure, at=at, of=policy.attempts or None)


def limit_reached(step: OpenStep, names: str, wait: timedelta) -> e.StepFailed:
    """The outcome of a step that waited as long for its limits as it may, or that may not wait. The attempt that waited
    had no body, and is not counted."""
    waited = f"waited {format_duration(wait)} for limit {names}" if wait else f"met limit {names}"
    message = (
        f"step {step.step} {waited}, and no place was free. Call it again later, raise limit_wait= of the step, or the "
        f"limit itself: holdfast limits"
    )
    return e.StepFailed(key=step.key, failure=Failure(type=LIMITED, message=message), attempts=step.bodies)


def limit_exceeded(count: int, limit: int) -> Failure:
    """The failure of a run that asked for more attempts than its limit allows."""
    return Failure(
        type="StepLimitExceeded",
        message=(
            f"the run asked for attempt {count} of all kinds, the limit is {limit}. "
            "Split the work with continue_as() or children, or raise it: @workflow(step_limit=…)."
        ),
    )
