"""How a machine leaves its run, and what is imposed on it: the exact words and moments."""

from __future__ import annotations

from datetime import timedelta

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.failure import Failure
from holdfast.errors import Diverged
from holdfast.turn import effects as f
from holdfast.turn import inputs as i
from tests.unit.turn.machines import AT, SETTINGS, Bench, run_step

CANCEL = e.CancelRequested(message="c1", reason="enough")
LATER = AT + timedelta(hours=1)


def test_a_run_that_continues_as_another_leaves_with_its_next_life() -> None:
    bench = Bench([c.ContinueAs(workflow="flow", version="", args=b"{}")])
    bench.open()
    bench.said()
    leave = bench.only(f.Leave)
    assert (leave.is_warm, leave.is_over) == (True, False)
    assert isinstance(leave.anew, e.Continued)


def test_a_pass_that_failed_leaves_without_its_program() -> None:
    bench = Bench([c.Fail(failure=Failure(type="ValueError", message="no"))])
    bench.open()
    ends_pass = isinstance(bench.written[-1], e.RetryPlanned)
    bench.said()
    leave = bench.only(f.Leave)
    assert (leave.is_warm, leave.anew) == (False, None)
    assert leave.is_over is not ends_pass


def test_a_run_that_is_given_back_is_not_over() -> None:
    bench = Bench(available_at=LATER)
    bench.open()
    bench.take(i.Released(bench.later(), is_ours=True))
    assert bench.effects == [f.GivenBack(False), f.Leave(True, False)]


def test_a_worker_that_leaves_keeps_nothing_of_a_run_it_gives_back() -> None:
    bench = Bench(available_at=LATER)
    bench.open()
    bench.take(i.Drain(bench.later()))
    bench.take(i.Released(bench.later(), is_ours=True))
    assert bench.effects == [f.GivenBack(True), f.Leave(False, False)]


def test_a_run_that_another_worker_took_says_so() -> None:
    bench = Bench(available_at=LATER)
    bench.open()
    bench.take(i.Released(bench.later(), is_ours=False))
    assert bench.effects[0] == f.Dropped("this worker no longer held it", "fenced")


def test_a_clean_up_is_ended_at_the_very_moment_its_grace_is_over() -> None:
    bench = Bench([run_step("a")], [])
    bench.open()
    bench.said()
    bench.take(i.Messages(bench.later(), [CANCEL], 1))
    grace_until = SETTINGS.grace_until(bench.at)
    bench.said()
    bench.take(i.TimeCame(grace_until - timedelta(microseconds=1)))
    assert not bench.all(f.Submit)
    bench.take(i.TimeCame(grace_until))
    assert isinstance(bench.written[-1], e.Cancelled)


def test_a_run_whose_deadline_passed_before_it_began_ends_without_its_program() -> None:
    """Promise: at the very moment, with what came in, and the body is never entered."""
    signal = e.SignalReceived(message="m1", name="go")
    bench = Bench([run_step("a")], deadline=AT + timedelta(seconds=1))
    bench.open(signal)
    assert [type(x) for x in bench.written] == [e.Claimed, e.SignalReceived, e.Failed]
    end = bench.written[-1]
    assert isinstance(end, e.Failed)
    assert (end.imposed, end.failure.type) == (True, "DeadlineExceeded")
    assert bench.program.fed == []


def test_a_run_that_has_time_left_begins() -> None:
    bench = Bench([run_step("a")], deadline=AT + timedelta(seconds=1, microseconds=1))
    bench.open()
    assert [type(x) for x in bench.written] == [e.Claimed, e.StepScheduled]


def test_a_paused_program_takes_the_writer_from_its_bodies_and_says_why() -> None:
    bench = Bench([run_step("tx", tx=True), run_step("a")], Diverged("other"), is_exclusive=True)
    bench.open()
    bench.said()
    bench.take(i.Held(bench.later(), "tx", b"1"))
    assert bench.effects[0] == f.GiveUp("tx")
    assert isinstance(bench.written[0], e.Paused)


def test_an_imposed_end_says_why_it_takes_the_writer() -> None:
    bench = Bench([run_step("a")], [run_step("tx", tx=True)], is_exclusive=True)
    bench.open()
    bench.said()
    bench.take(i.Messages(bench.later(), [CANCEL], 1))
    bench.said()
    bench.take(i.TimeCame(bench.later(600)))
    assert bench.only(f.Forget) == f.Forget("tx", "the run has ended")


def test_an_outcome_that_is_held_too_late_is_undone() -> None:
    bench = Bench([run_step("tx", tx=True)])
    bench.open()
    bench.said()
    bench.take(i.Lost(bench.later(), "taken over"))
    bench.take(i.Held(bench.later(), "tx", b"1"))
    assert bench.effects == [f.GiveUp("tx")]


def test_a_worker_that_leaves_holds_no_step_for_a_round() -> None:
    bench = Bench([run_step("a")], [run_step("b")])
    bench.open()
    bench.said()
    bench.take(i.Drain(bench.later()))
    bench.lands("a")
    released = next(x for x in bench.written if isinstance(x, e.Released))
    assert (released.unstarted, released.next_round) == (("b",), False)
