"""What follows from a failed attempt: another one, or the step's last failure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import events as e
from holdfast.core.opened import OpenStep
from holdfast.core.retry import LATEST, Retry
from holdfast.core.step import (
    STOPPED,
    UNKNOWN,
    limit_exceeded,
    limit_reached,
    on_attempt_failed,
    on_workflow_failed,
    outcome_unknown,
)
from tests.unit.core.journals import BOOM, NOON, at, seconds

FIVE = Retry(5, first="10s", factor=2, ceiling="100s")


def failed(open_step: OpenStep, policy: Retry = FIVE, now: datetime = NOON, jitter: float = 0, **more: Any) -> Any:
    return on_attempt_failed(open_step, BOOM, policy, now, jitter, **more)


def test_another_attempt_follows() -> None:
    open_step = OpenStep("charge:1", "charge", NOON, attempt=3, failures=1)
    assert failed(open_step) == e.AttemptFailed(key="charge:1", attempt=3, failure=BOOM, retry_at=at(20), of=5)


def test_chance_shortens_the_wait() -> None:
    assert failed(OpenStep("a", "a", NOON), jitter=0.5).retry_at == at(7.5)


@pytest.mark.parametrize(("failures", "is_last"), [(0, False), (3, False), (4, True), (5, True)])
def test_the_budget_counts_failed_attempts(failures: int, is_last: bool) -> None:
    """Contract: Retry(5) is five tries in all; attempts cut off by a crash are not among them, but have numbers."""
    event = failed(OpenStep("a", "a", NOON, attempt=9, failures=failures))
    if is_last:
        assert event == e.StepFailed(key="a", failure=BOOM, attempts=9)
    else:
        assert isinstance(event, e.AttemptFailed)


def test_without_a_limit_there_is_always_another() -> None:
    event = failed(OpenStep("a", "a", NOON, failures=10_000), Retry(None))
    assert isinstance(event, e.AttemptFailed)
    assert event.of is None


def test_a_final_failure_is_the_last_whatever_the_policy() -> None:
    assert failed(OpenStep("a", "a", NOON), is_final=True) == e.StepFailed(key="a", failure=BOOM, attempts=1)


@pytest.mark.parametrize(("not_before", "then"), [(5, 10), (10, 10), (11, 11), (3600, 3600)])
def test_an_author_may_ask_for_a_longer_wait_not_a_shorter_one(not_before: float, then: float) -> None:
    assert failed(OpenStep("a", "a", NOON), not_before=seconds(not_before)).retry_at == at(then)


@pytest.mark.parametrize("wait", [timedelta.max, LATEST - NOON, LATEST - NOON + timedelta.resolution])
def test_a_wait_beyond_the_calendar_ends_with_it(wait: timedelta) -> None:
    """Contract: RetryAfter("300000d") is no crash of the worker."""
    assert failed(OpenStep("a", "a", NOON), not_before=wait).retry_at == LATEST


@pytest.mark.spec("openworkflow.O82", "traps.B8")
@pytest.mark.parametrize(("deadline", "is_last"), [(9, True), (10, True), (10.000001, False)])
def test_no_retry_at_or_after_the_deadline(deadline: float, is_last: bool) -> None:
    """Contract: O82: a retry whose time is at the deadline or past it fails the step with its own error."""
    event = failed(OpenStep("a", "a", NOON), deadline=at(deadline))
    assert isinstance(event, e.StepFailed if is_last else e.AttemptFailed)
    assert event.failure == BOOM


def test_the_wait_an_author_asks_for_counts_against_the_deadline() -> None:
    event = failed(OpenStep("a", "a", NOON), not_before=seconds(60), deadline=at(30))
    assert isinstance(event, e.StepFailed)


def test_a_failed_step_says_the_number_of_its_last_attempt() -> None:
    """Promise: one attempt has one number everywhere: attempts that a crash cut off count in it, as in the timeline."""
    last = failed(OpenStep("a", "a", NOON, attempt=4, failures=1), is_final=True)
    assert isinstance(last, e.StepFailed)
    assert last.attempts == 4


@pytest.mark.parametrize("attempt", [1, 3])
def test_a_step_without_a_place_counts_the_attempts_that_had_a_body(attempt: int) -> None:
    """Promise: the attempt that waited is none of them."""
    step = OpenStep("a", "a", NOON, attempt=attempt, is_unstarted=True)
    assert limit_reached(step, "api", timedelta(0)).attempts == attempt - 1


def test_a_once_step_that_was_cut_off_is_in_doubt() -> None:
    event = outcome_unknown(OpenStep("charge:1", "charge", NOON, attempt=2))
    assert (event.key, event.attempts, event.failure.type) == ("charge:1", 2, UNKNOWN)
    assert event.failure.message == ("step charge was cut off; it is declared once=True, so it is not tried again")
    assert (UNKNOWN, STOPPED) == ("OutcomeUnknown", "Stopped")


def test_a_workflow_is_tried_again() -> None:
    event = on_workflow_failed(BOOM, FIVE, 2, NOON, 0, None)
    assert event == e.RetryPlanned(failure=BOOM, at=at(20), of=5)
    assert on_workflow_failed(BOOM, Retry(None, first="10s"), 1, NOON, 0.5, None) == e.RetryPlanned(
        failure=BOOM, at=at(7.5), of=None
    )


@pytest.mark.parametrize(
    ("passes", "deadline", "is_last"), [(4, None, False), (5, None, True), (1, 9, True), (1, 10, True), (1, 11, False)]
)
def test_a_workflow_is_not_tried_for_ever(passes: int, deadline: float | None, is_last: bool) -> None:
    event = on_workflow_failed(BOOM, FIVE, passes, NOON, 0, None if deadline is None else at(deadline))
    assert event == e.Failed(failure=BOOM) if is_last else isinstance(event, e.RetryPlanned)


def test_the_failure_of_a_run_that_asked_for_too_much_says_what_to_do() -> None:
    failure = limit_exceeded(1001, 1000)
    assert failure.type == "StepLimitExceeded"
    assert failure.message == (
        "the run asked for attempt 1001 of all kinds, the limit is 1000. "
        "Split the work with continue_as() or children, or raise it: @workflow(step_limit=…)."
    )


@given(st.integers(0, 20), st.integers(1, 20), st.floats(0, 1, exclude_max=True))
def test_a_retry_is_never_in_the_past(failures: int, attempts: int, jitter: float) -> None:
    event = failed(OpenStep("a", "a", NOON, failures=failures), Retry(attempts), jitter=jitter)
    assert isinstance(event, e.StepFailed) == (failures + 1 >= attempts)
    if isinstance(event, e.AttemptFailed):
        assert event.retry_at > NOON
