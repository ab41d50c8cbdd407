"""The fold: a run is what its journal says, and nothing else."""

from __future__ import annotations

import pytest

from holdfast.core import events as e
from holdfast.core.fold import fold
from holdfast.core.opened import OpenStep, OpenWait
from holdfast.core.run import _HANDLERS, _STATUS_TAGS, Run
from holdfast.core.status import Status
from holdfast.core.turn import GENESIS
from holdfast.errors import CorruptJournal
from tests.unit.core.journals import (
    BOOM,
    EVENTS,
    LATER,
    NOON,
    Journal,
    at,
    attempt_failed,
    done,
    raw,
    signal,
    started,
    step,
)
from tests.unit.core.random_journals import child, child_ended

NO_EFFECT = {e.Entered, e.MessageSent, e.Patched, e.SendSettled, e.Streamed}
"""Kinds without a handler: what they say is in the journal only."""


def test_every_event_has_its_place_in_the_fold() -> None:
    assert set(EVENTS) - set(_HANDLERS) == NO_EFFECT
    assert set(_STATUS_TAGS) == {e.Claimed, e.Paused, e.Resumed, e.Continued, e.Completed, e.Failed, e.Cancelled}


# -- starting ----------------------------------------------------------------------------------------------------------


def test_a_run_begins_with_what_it_was_started_with() -> None:
    first = started(
        version="2", code="abc", codec="json", queue="slow", priority=5, key="k", available_at=at(60), deadline=at(600),
        parent="p", parent_key="pk", root="top", on_cancel="cancel", attributes={"tier": "gold"}, retried_from="old",
    )  # fmt: skip
    journal = Journal(first)
    assert journal.run == Run(
        "r", workflow="order", version="2", code="abc", codec="json", status=Status.PENDING, queue="slow", priority=5,
        key="k", parent="p", parent_key="pk", root="top", on_cancel="cancel", retried_from="old", available_at=at(60),
        deadline=at(600), attributes={"tier": "gold"}, created_at=NOON, updated_at=NOON, ordinal=1, epoch=0,
        checksum=journal.rows[0].checksum,
    )  # fmt: skip


def test_a_run_without_a_parent_is_its_own_root_and_available_at_once() -> None:
    run = Journal().run
    assert (run.root, run.available_at, run.queue, run.started_at) == ("r", NOON, "default", None)
    assert Run("r").checksum == GENESIS


def test_attributes_belong_to_the_fold_alone() -> None:
    first = started(attributes={"a": "1"})
    run = Journal(first).run
    run.attributes["a"] = "2"
    assert first.attributes == {"a": "1"}


@pytest.mark.spec("openworkflow.O7")
def test_a_claim_starts_the_run_once() -> None:
    """Contract: O7: started_at is the first claim's; epoch and checksum are those of the last row."""
    journal = Journal().claim(step("a")).claim(worker="w2", restarted=("a",))
    run = journal.run
    assert (run.status, run.started_at, run.worker, run.epoch) == (Status.RUNNING, at(1), "w2", 2)
    assert (run.created_at, run.updated_at, run.ordinal) == (NOON, at(2), 3)
    assert run.checksum == journal.rows[-1].checksum


# -- steps -------------------------------------------------------------------------------------------------------------


def test_a_step_is_open_until_it_has_an_outcome() -> None:
    journal = Journal().claim(step("charge:1", step="charge", undo=True, undoes="x"), step("b"))
    run = journal.run
    assert run.steps == {
        "charge:1": OpenStep("charge:1", "charge", at(1), undo=True, undoes="x"),
        "b": OpenStep("b", "b", at(1)),
    }
    assert run.in_flight == list(run.steps.values())
    assert run.attempts == 2
    assert list(journal.turn(done("charge:1")).run.steps) == ["b"]
    assert not journal.turn(e.StepFailed(key="b", failure=BOOM)).run.steps


def test_a_failed_attempt_waits_for_the_next() -> None:
    journal = Journal().claim(step("a"))
    failed = e.AttemptFailed(key="a", attempt=1, failure=BOOM, retry_at=at(30), of=5, progress=raw("7"))
    run = journal.turn(failed).run
    assert run.steps["a"] == OpenStep(
        "a", "a", at(1), attempt=1, failures=1, retry_at=at(30), of=5, last=BOOM, progress=b"7"
    )
    assert not run.in_flight
    assert run.attempts == 1
    run = journal.turn(e.AttemptStarted(key="a", attempt=2)).run
    assert run.steps["a"] == OpenStep("a", "a", at(1), attempt=2, failures=1, of=5, last=BOOM, progress=b"7")
    assert [s.key for s in run.in_flight] == ["a"]
    assert run.attempts == 2
    run = journal.turn(attempt_failed("a", 2)).run
    assert (run.steps["a"].failures, run.steps["a"].attempt, run.steps["a"].progress) == (2, 2, b"null")


def test_a_restarted_attempt_costs_nothing_of_the_budget() -> None:
    """Contract: after a crash attempt + 1, the same failures; it counts against the limit of all attempts only."""
    journal = Journal().claim(step("a"), step("b")).claim(worker="w2", restarted=("a", "b"))
    run = journal.run
    assert [(s.attempt, s.failures, s.restarts) for s in run.steps.values()] == [(2, 0, 1), (2, 0, 1)]
    assert run.attempts == 4
    run = journal.turn(attempt_failed("a", 2)).run
    assert (run.steps["a"].attempt, run.steps["a"].failures, run.steps["a"].restarts) == (2, 1, 1)
    run = journal.turn(e.AttemptStarted(key="a", attempt=3)).run
    assert run.steps["a"].restarts == 1


def test_a_step_that_was_released_unstarted_is_not_counted_again() -> None:
    journal = Journal().claim(step("a"))
    run = journal.turn(e.Released(worker="w1", unstarted=("a",))).run
    assert run.steps["a"].is_unstarted
    assert run.worker == ""
    run = journal.claim(worker="w2", begun=("a",)).run
    assert (run.steps["a"].is_unstarted, run.steps["a"].attempt, run.attempts) == (False, 1, 1)


def test_a_release_may_name_a_step_of_its_own_turn() -> None:
    """Contract: a release is the last thing that happens in its row, wherever it stands in it."""
    journal = Journal().claim(step("a"))
    run = journal.turn(done("a"), e.Released(worker="w1", unstarted=("b", "a")), step("b")).run
    assert run.steps["b"].is_unstarted
    assert list(run.steps) == ["b"]


def test_a_late_outcome_of_an_abandoned_step_is_recorded_and_ignored() -> None:
    journal = Journal().claim(step("a", undo=True))
    run = journal.turn(e.StepAbandoned(key="a")).run
    assert run.steps["a"].is_abandoned
    assert not run.in_flight
    run = journal.turn(done("a")).run
    assert not run.steps
    assert run.undoable == {"a": "a"}, "it took effect, so it can be undone"


def test_outcomes_of_steps_that_are_not_open_change_nothing() -> None:
    journal = Journal().claim(step("a"))
    before = journal.run
    late = (done("x"), e.StepFailed(key="x", failure=BOOM), attempt_failed("x"), e.StepAbandoned(key="x"))
    after = journal.turn(*late).run
    assert after.steps == before.steps
    assert (after.undoable, after.attempts) == ({}, 1)


@pytest.mark.parametrize(
    "event",
    [
        e.AttemptStarted(key="x", attempt=2),
        e.Claimed(worker="w", restarted=("x",)),
        e.Claimed(worker="w", begun=("x",)),
    ],
    ids=["attempt", "restarted", "begun"],
)
def test_an_attempt_of_a_step_nobody_asked_for_is_corruption(event: e.AnyEvent) -> None:
    with pytest.raises(CorruptJournal, match=r"^run r: row 3 names step 'x', which is not open$"):
        Journal().claim(step("a")).turn(event).run  # noqa: B018 the fold is what fails


# -- sagas -------------------------------------------------------------------------------------------------------------


def test_a_saga_remembers_what_can_be_undone() -> None:
    journal = Journal().claim(step("charge:1", step="charge", undo=True), step("ship", undo=True), step("log"))
    journal.turn(done("charge:1"), done("ship"), done("log"))
    assert journal.run.undoable == {"charge:1": "charge", "ship": "ship"}
    journal.turn(step("refund", undoes="charge:1"))
    assert "charge:1" in journal.run.undoable, "not before the undo has completed"
    assert journal.turn(done("refund")).run.undoable == {"ship": "ship"}


def test_an_undo_that_failed_leaves_its_step_undoable() -> None:
    journal = Journal().claim(step("charge", undo=True)).turn(done("charge"), step("refund", undoes="charge"))
    assert journal.turn(e.StepFailed(key="refund", failure=BOOM)).run.undoable == {"charge": "charge"}


def test_a_saga_that_ended_well_keeps_its_steps() -> None:
    journal = Journal().claim(step("a", undo=True), step("b", undo=True)).turn(done("a"), done("b"))
    assert journal.turn(e.Kept(keys=("a", "x"))).run.undoable == {"b": "b"}


# -- waits -------------------------------------------------------------------------------------------------------------


def test_what_a_run_waits_for() -> None:
    run = Journal().claim(
        e.SleepStarted(key="nap", until=at(60)),
        e.WaitStarted(key="ok", name="approved", until=at(90)),
        e.WaitStarted(key="paid", name="orders", kind="topic"),
        child(until=at(99), on_cancel="cancel", awaited=False),
    ).run  # fmt: skip
    assert run.waits == {
        "nap": OpenWait("nap", "sleep", "nap", at(1), at(60)),
        "ok": OpenWait("ok", "signal", "approved", at(1), at(90)),
        "paid": OpenWait("paid", "topic", "orders", at(1)),
        "ship": OpenWait("ship", "child", "shipping", at(1), at(99), "r/ship", "cancel", awaited=False),
    }
    assert run.attempts == 4


@pytest.mark.parametrize(
    ("opened", "ending"),
    [
        (e.SleepStarted(key="a", until=at(60)), e.TimerFired(key="a")),
        (e.SleepStarted(key="a", until=at(60)), e.WaitEnded(key="a")),
        (e.WaitStarted(key="a", name="go"), e.TimerFired(key="a")),
        (e.WaitStarted(key="a", name="go"), e.WaitEnded(key="a", message="m")),
        (e.WaitStarted(key="a", name="go"), e.WaitEnded(key="a")),
        (e.WaitStarted(key="a", name="t", kind="topic"), e.TopicReceived(key="a", message="m", name="t")),
        (child("a"), child_ended("a")),
    ],
    ids=["slept", "woken", "timed out", "message", "given up", "topic", "child"],
)
def test_a_wait_ends(opened: e.AnyEvent, ending: e.AnyEvent) -> None:
    journal = Journal().claim(opened, e.SleepStarted(key="b", until=at(99)))
    assert list(journal.run.waits) == ["a", "b"]
    assert list(journal.turn(ending).run.waits) == ["b"]


@pytest.mark.parametrize("ending", [e.TimerFired(key="ship"), e.WaitEnded(key="ship")], ids=["timed out", "given up"])
def test_a_child_outlives_the_wait_for_it(ending: e.AnyEvent) -> None:
    """Contract: O48: on a time-out the wait fails, never the child; the run still knows that it has one."""
    journal = Journal().claim(child(on_cancel="cancel"))
    before = journal.run.waits["ship"]
    assert before.awaited is True
    run = journal.turn(ending).run
    assert (run.waits["ship"].awaited, run.waits["ship"].on_cancel) == (False, "cancel")
    assert not journal.turn(child_ended()).run.waits


@pytest.mark.spec("stepflow.R12")
def test_the_end_of_another_child_under_the_same_key_changes_nothing() -> None:
    journal = Journal().claim(child())
    assert "ship" in journal.turn(child_ended(run="r#3/ship")).run.waits
    assert "ship" not in journal.turn(child_ended()).run.waits
    assert not journal.turn(child_ended("x"), e.TimerFired(key="timeout")).run.waits


def test_signals_are_buffered_until_a_wait_takes_them() -> None:
    journal = Journal().claim(signal("m1"), signal("m2")).turn(signal("m1"))
    assert list(journal.run.buffered) == ["m1", "m2"]
    assert list(journal.turn(e.WaitEnded(key="go", message="m1")).run.buffered) == ["m2"]
    assert list(journal.turn(e.WaitEnded(key="go:1")).run.buffered) == ["m2"]


def test_the_last_value_shown_counts() -> None:
    one, two = e.Exposed(name="progress", value=raw("1")), e.Exposed(name="progress", value=raw("2"))
    assert Journal().claim(one).turn(two, e.Exposed(name="x")).run.exposed["progress"] is two


# -- cancel, deadline, pause -------------------------------------------------------------------------------------------


def test_the_first_cancel_counts() -> None:
    first = e.CancelRequested(reason="left", grace_until=at(300))
    run = Journal().claim(step("a")).turn(first).turn(e.CancelRequested(reason="again", grace_until=at(900))).run
    assert run.cancel is first
    assert run.grace_until == at(300)


@pytest.mark.parametrize(
    ("cancel", "deadline", "until"), [(None, None, None), (5, None, 5), (None, 6, 6), (5, 6, 5), (7, 6, 6)]
)
def test_the_earlier_grace_counts(cancel: float | None, deadline: float | None, until: float | None) -> None:
    events: list[e.AnyEvent] = []
    if cancel is not None:
        events.append(e.CancelRequested(grace_until=at(cancel)))
    if deadline is not None:
        events.append(e.DeadlineReached(grace_until=at(deadline)))
    run = Journal().claim(*events, e.CancelRequested() if cancel is None else e.Patched(name="x")).run
    assert run.grace_until == (None if until is None else at(until))


def test_a_deadline_is_noted() -> None:
    reached = e.DeadlineReached(grace_until=at(9))
    assert Journal().claim(reached).run.past_deadline is reached
    assert Journal().claim().run.past_deadline is None


def test_a_pause_and_a_resume() -> None:
    journal = Journal().claim(step("a"))
    pause = e.Paused(reason="operator", detail="lunch", actor="me")
    run = journal.turn(pause).run
    assert (run.status, run.paused, run.worker) == (Status.PAUSED, pause, "")
    again = e.Paused(reason="diverged")
    run = journal.claim(again).run
    assert (run.status, run.paused) == (Status.PAUSED, again)
    run = journal.turn(e.Resumed(actor="me")).run
    assert (run.status, run.paused, list(run.steps)) == (Status.RUNNING, None, ["a"])
    assert journal.turn(e.Resumed(actor="you")).run.status is Status.RUNNING


def test_a_run_paused_before_its_first_claim_is_pending_again() -> None:
    journal = Journal().turn(e.Paused(reason="operator"))
    assert journal.run.status is Status.PAUSED
    assert journal.turn(e.Resumed()).run.status is Status.PENDING
    assert journal.turn(e.Resumed()).run.status is Status.PENDING
    assert journal.claim().run.status is Status.RUNNING


# -- passes ------------------------------------------------------------------------------------------------------------


def test_a_planned_retry_and_its_pass() -> None:
    planned = e.RetryPlanned(failure=BOOM, at=at(30), of=3)
    journal = Journal().claim(step("a"), e.SleepStarted(key="nap", until=at(9)), child()).turn(planned)
    run = journal.run
    assert (run.retry, run.passes, run.status, run.worker) == (planned, 1, Status.RUNNING, "")
    assert not run.in_flight, "no body outlives its pass"
    assert list(run.waits) == ["nap", "ship"], "sleeps keep their end, children go on"
    run = journal.claim(e.PassStarted(number=2)).run
    assert (run.retry, run.passes) == (None, 2)


def test_a_step_left_by_an_earlier_pass_goes_on_counting() -> None:
    """Contract: budgets count the failed attempts of a key, over passes too."""
    journal = Journal().claim(step("a")).turn(attempt_failed("a")).turn(e.RetryPlanned(failure=LATER, at=at(30)))
    assert journal.run.steps["a"].is_abandoned
    run = journal.claim(e.PassStarted(number=2), step("a")).run
    assert run.steps["a"] == OpenStep("a", "a", at(4), attempt=2, failures=1, of=5, last=BOOM)
    assert run.attempts == 2


def test_progress_survives_a_pass() -> None:
    failed = e.AttemptFailed(key="a", attempt=1, failure=BOOM, retry_at=at(9), progress=raw("7"))
    journal = Journal().claim(step("a")).turn(failed).turn(e.RetryPlanned(failure=BOOM, at=at(30)))
    assert journal.claim(step("a")).run.steps["a"].progress == b"7"


def test_continue_as_begins_anew() -> None:
    """Contract: same id, ordinals go on, signals and shown values stay; steps, waits, undos and counts do not."""
    journal = Journal(started(version="1", attributes={"a": "b"})).claim(
        signal("m"), step("a", undo=True), step("b"), e.SleepStarted(key="nap", until=at(9)),
        child("kept", on_cancel="cancel"), child("lost"), e.WaitStarted(key="w", name="go"), e.Exposed(name="x"),
    )  # fmt: skip
    journal.turn(done("a"), e.RetryPlanned(failure=BOOM, at=at(5))).claim(e.PassStarted(number=2))
    journal.turn(e.Continued(workflow="next", version="2"))
    run = journal.run
    assert (run.workflow, run.version, run.status, run.ordinal, run.origin) == ("next", "2", Status.RUNNING, 5, 5)
    assert (run.steps, run.undoable, run.attempts, run.passes, run.retry, run.worker) == ({}, {}, 0, 1, None, "")
    assert (run.waits, run.left) == ({}, {"r/kept": "shipping"})
    assert (list(run.buffered), list(run.exposed), run.attributes) == (["m"], ["x"], {"a": "b"})
    assert Journal().run.origin == 1


def test_a_child_of_an_earlier_life_is_kept_until_it_ends_whatever_the_next_life_does_with_its_key() -> None:
    """Contract: what is to be cancelled with the run is known by its own id, and forgotten with its end alone."""
    journal = Journal(started()).claim(child("c", on_cancel="cancel")).turn(e.Continued(workflow="next"))
    journal.claim(e.ChildStarted(key="c", run="r#3/c", workflow="shipping"), e.SleepStarted(key="r/c", until=at(9)))
    assert (set(journal.run.waits), set(journal.run.left)) == ({"c", "r/c"}, {"r/c"})
    journal.turn(e.ChildEnded(key="c", run="r/c", status="completed"))
    assert (set(journal.run.waits), set(journal.run.left)) == ({"c", "r/c"}, set())
    journal.turn(e.ChildEnded(key="c", run="r#3/c", status="completed"))
    assert set(journal.run.waits) == {"r/c"}


def test_a_pause_may_come_as_a_run_begins_anew() -> None:
    """Contract: the operator's pause and `continue_as` in one row: the run has begun anew, and stands still."""
    journal = Journal(started()).claim(step("a"))
    journal.turn(done("a"), e.Paused(reason="operator"), e.Continued(workflow="next", version="2"))
    assert (journal.run.workflow, journal.run.status) == ("next", Status.PAUSED)
    journal.turn(e.Resumed())
    assert journal.run.status is Status.RUNNING


def test_what_is_adopted_can_be_undone_and_taken() -> None:
    """Contract: a retried run answers for the deeds it adopted, and has the signals nobody took."""
    facts = (
        step("charge:1", step="charge", undo=True), done("charge:1"), step("ship", undo=True), done("ship"),
        step("log"), done("log"), step("open", undo=True), done("stray"),
        signal("m1"), e.WaitEnded(key="go", message="m1"), signal("m2"),
    )  # fmt: skip
    run = Journal(started(), e.Adopted(facts=facts)).run
    assert run.undoable == {"charge:1": "charge", "ship": "ship"}
    assert list(run.buffered) == ["m2"]
    assert (run.steps, run.waits, run.attempts, run.status) == ({}, {}, 0, Status.PENDING)


# -- the end -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (e.Completed(value=raw("5")), Status.COMPLETED),
        (e.Failed(failure=BOOM), Status.FAILED),
        (e.Cancelled(reason="left"), Status.CANCELLED),
    ],
    ids=["completed", "failed", "cancelled"],
)
def test_the_end(end: e.Terminal, status: Status) -> None:
    journal = Journal().claim(step("a"))
    run = journal.turn(done("a"), end).run
    assert (run.status, run.end, run.ended_at, run.worker) == (status, end, at(2), "w1")
    with pytest.raises(CorruptJournal, match=r"^run r: row 4 follows the run's end in row 3$"):
        journal.turn(signal("m")).run  # noqa: B018 the fold is what fails


def test_a_run_may_end_before_it_began() -> None:
    run = Journal().turn(e.Cancelled(reason="no")).run
    assert (run.status, run.started_at, run.ended_at) == (Status.CANCELLED, None, at(1))


def test_two_ends_in_one_row_are_corruption() -> None:
    journal = Journal().claim(e.Completed(), e.Failed(failure=BOOM))
    match = r"^run r: row 2: a completed run takes no further event, got 'failed'$"
    with pytest.raises(CorruptJournal, match=match) as caught:
        journal.run  # noqa: B018 the fold is what fails
    assert caught.value.__cause__ is not None


def test_an_end_that_cannot_be_is_corruption() -> None:
    with pytest.raises(CorruptJournal, match="row 2: a pending run cannot take the event 'completed'"):
        Journal().turn(e.Completed()).run  # noqa: B018 the fold is what fails


@pytest.mark.parametrize("ordinals", [[2], [1, 3], [1, 1], [1, 2, 2]])
def test_rows_are_folded_in_order_without_gaps(ordinals: list[int]) -> None:
    turns = Journal().claim().turn().turns
    with pytest.raises(CorruptJournal, match=rf"^run r: row \d is missing, found {ordinals[-1]}$"):
        fold("r", [turns[ordinal - 1] for ordinal in ordinals])
