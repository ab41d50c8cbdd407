"""When a machine writes a turn, what time brings, and until when it waits or is given back."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.specs import Settings
from holdfast.core.step import STOPPED
from holdfast.ports.journal import Committed, Park
from holdfast.turn import effects as f
from holdfast.turn import inputs as i
from holdfast.turn.states import State
from tests.unit.turn.machines import AT, REFUSALS, Bench, FakeProgram, run_step

SIGNAL = e.SignalReceived(message="m1", name="go")
CANCEL = e.CancelRequested(message="c1", reason="enough")
PAUSE = e.Paused(reason="operator", detail="wait")
DONE = c.Complete(value=b"1")
CHILD = c.StartChild(key="child", run="child", workflow="flow", version="", args=b"{}")
WHERE = "flow.py:3"


def names(bench: Bench) -> list[str]:
    return [type(x).__name__ for x in bench.written]


def flying(*more: list[c.Command] | Exception, steps: tuple[c.RunStep, ...] = (), **options: Any) -> Bench:
    """A run whose bodies run: those of step a, and of these."""
    bench = Bench([run_step("a"), *steps], *more, **options)
    bench.open()
    bench.said()
    return bench


def resting(**options: Any) -> Bench:
    """A parent whose child runs."""
    bench = Bench([CHILD], **options)
    bench.open()
    bench.said()
    assert bench.state is State.IDLE
    return bench


# -- one turn, and which bodies begin ----------------------------------------------------------------------------------


def test_what_landed_during_a_write_is_taken_although_another_body_runs() -> None:
    bench = flying(steps=(run_step("b"), run_step("c")))
    bench.lands("a")
    bench.lands("b")
    bench.said()
    assert names(bench) == ["StepCompleted"]


def test_news_are_looked_at_once() -> None:
    bench = flying([], [])
    bench.take(i.Messages(bench.later(), [SIGNAL], 1))
    bench.take(i.News(bench.later()))
    bench.said()
    assert bench.all(f.LookInbox)
    bench.take(i.Messages(bench.later(), [SIGNAL], 2))
    bench.said()
    assert not bench.all(f.LookInbox)


def test_a_turn_without_an_end_takes_no_body_back() -> None:
    bench = flying([], steps=(run_step("b"),), withdraw=list)
    bench.lands("a")
    assert "b" in bench.machine._flight


def test_a_body_that_was_to_begin_does_not_if_the_run_ends_first() -> None:
    """Promise: what came during the write ends the run; the end does not name it, and if it is refused it begins."""
    bench = flying([run_step("b")], [DONE], [], steps=(run_step("x"),))
    bench.lands("a")
    bench.lands("x")
    bench.said()
    assert [type(x).__name__ for x in bench.effects] == ["Turned", "Submit"]
    end = bench.written[-1]
    assert isinstance(end, e.Completed)
    assert end.left == ()
    bench.program.steps = {"b": run_step("b")}
    bench.said(REFUSALS["unread"])
    bench.reopened(*bench.only(f.Reload).kept, messages=[SIGNAL], last=1)
    bench.said()
    assert (bench.only(f.Start).command.key, bench.only(f.Start).attempt) == ("b", 1)


@pytest.mark.parametrize("leaves", [i.Drain(AT), i.Messages(AT, [PAUSE], 1)], ids=["drain", "pause"])
def test_no_body_begins_in_a_run_that_is_about_to_be_given_back(leaves: i.Input) -> None:
    bench = flying([run_step("b")], steps=(run_step("x"),))
    bench.take(leaves)
    bench.lands("a")
    bench.said()
    assert not bench.all(f.Start)
    bench.lands("x")
    released = next(x for x in bench.written if isinstance(x, e.Released))
    assert released.unstarted == ("b",)


def test_a_worker_that_leaves_stops_the_last_body_and_names_what_has_not_begun() -> None:
    """Promise: the stopped body has no outcome, and the run is given back with a turn nevertheless."""
    bench = flying([run_step("b")], steps=(run_step("x"),))
    bench.take(i.Drain(bench.later()))
    bench.lands("a")
    bench.said()
    bench.breaks("x", STOPPED, "the worker is leaving")
    assert names(bench) == ["Released"]
    [released] = bench.written
    assert isinstance(released, e.Released)
    assert released.unstarted == ("b",)


def test_a_run_keeps_no_command_of_a_step_that_has_ended() -> None:
    """Promise: a run of many steps does not grow with them."""
    bench = flying([run_step("b")], [])
    bench.lands("a")
    bench.said()
    assert set(bench.machine._commands) == {"b"}
    bench.breaks("b", is_final=True)
    assert names(bench) == ["StepFailed"]
    assert not bench.machine._commands


def test_the_first_step_too_many_ends_the_run() -> None:
    bench = Bench([run_step("a")], [run_step("b")], settings=Settings(step_limit=1))
    bench.open()
    assert names(bench) == ["Claimed", "StepScheduled"]
    bench.said()
    bench.lands("a")
    end = bench.written[-1]
    assert isinstance(end, e.Failed)
    assert end.failure.type == "StepLimitExceeded"


def test_an_ended_program_says_that_the_run_is_ending() -> None:
    bench = flying([DONE])
    assert not bench.machine.is_ending
    bench.lands("a")
    assert bench.machine.is_ending


# -- receipts ----------------------------------------------------------------------------------------------------------


def test_a_signal_that_was_sent_has_arrived_once_its_turn_is_durable() -> None:
    bench = Bench(program=FakeProgram(has_begun=False, sends={"send": "other"}))
    bench.open(SIGNAL)
    assert names(bench) == ["Claimed", "SignalReceived", "SendSettled"]
    assert bench.written[-1] == e.SendSettled(key="send", to="other")


def test_a_receipt_waits_for_messages_that_are_unread() -> None:
    """Promise: the inbox may say that it did not arrive."""
    bench = flying([], [], [], steps=(run_step("b"), run_step("c")))
    bench.lands("a")
    bench.said(Committed(1, 4))
    bench.program.sends = {"send": "other"}
    bench.lands("b")
    assert names(bench) == ["StepCompleted"]
    bench.said(Committed(1, 4))
    assert not bench.all(f.Submit)
    bench.take(i.Messages(bench.later(), [SIGNAL], 4))
    assert names(bench) == ["SignalReceived", "SendSettled"]


# -- what time brings --------------------------------------------------------------------------------------------------


def test_a_retry_is_waited_for_and_begins_at_its_time() -> None:
    bench = flying([], [], steps=(run_step("b"),))
    bench.breaks("a")
    bench.said()
    retry_at = bench.machine.run.retries["a"]
    assert bench.only(f.WakeAt) == f.WakeAt(retry_at)
    bench.take(i.TimeCame(retry_at))
    assert bench.written == (e.AttemptStarted(key="a", attempt=2),)
    bench.said()
    assert bench.only(f.Start).attempt == 2


def test_a_timer_is_waited_for_while_a_body_runs() -> None:
    bench = Bench(
        [run_step("a")], program=FakeProgram([[run_step("a")]], has_begun=False, timer=AT + timedelta(hours=1))
    )
    bench.open()
    bench.said()
    assert bench.only(f.WakeAt) == f.WakeAt(AT + timedelta(hours=1))


def test_a_deadline_is_waited_for_while_a_body_runs_and_leaves_the_clean_up_its_grace() -> None:
    """Promise: a run that does not end within the grace is ended."""
    deadline = AT + timedelta(hours=1)
    bench = flying([], deadline=deadline)
    assert bench.only(f.WakeAt) == f.WakeAt(deadline)
    bench.take(i.TimeCame(deadline - timedelta(microseconds=1)))
    assert not bench.all(f.Submit)
    bench.take(i.TimeCame(deadline))
    grace_until = deadline + Settings().cancel_grace
    assert bench.written == (e.DeadlineReached(grace_until=grace_until),)
    bench.take(i.Verdict(deadline, Committed(1, 0)))
    assert bench.only(f.WakeAt) == f.WakeAt(grace_until)
    bench.take(i.TimeCame(grace_until))
    end = bench.written[-1]
    assert isinstance(end, e.Failed)
    assert (end.imposed, end.left) == (True, ("a",))


def test_the_end_of_a_grace_is_waited_for_while_a_body_runs() -> None:
    bench = flying([])
    bench.take(i.Messages(bench.later(), [CANCEL], 1))
    grace_until = bench.at + Settings().cancel_grace
    bench.said()
    assert bench.only(f.WakeAt) == f.WakeAt(grace_until)


def test_a_body_without_any_time_is_waited_for_without_a_wake() -> None:
    assert not flying().all(f.WakeAt)


@pytest.mark.parametrize(("away", "is_near"), [(0, True), (1, False)])
def test_a_timer_is_near_up_to_a_second(away: int, is_near: bool) -> None:
    late = Bench(program=FakeProgram())
    late.program.timer = late.at + timedelta(seconds=2, microseconds=away)
    late.open()
    near: list[f.Effect] = [f.Rest(True), f.WakeAt(late.program.timer)]
    assert late.effects == (near if is_near else [f.Release(late.program.timer, 0)])


# -- given back --------------------------------------------------------------------------------------------------------


def test_a_run_that_waits_for_a_signal_is_parked_with_its_turn() -> None:
    bench = Bench([c.AwaitMessage(key="w", kind="signal", name="go")])
    bench.open()
    assert bench.only(f.Submit).commit.park == Park(None)


def test_a_parent_is_given_back_at_once_by_a_worker_that_leaves() -> None:
    """Promise: without a turn, and due now, whatever it waits for."""
    bench = resting()
    bench.take(i.Drain(bench.later()))
    assert bench.effects == [f.Release(bench.at, 0)]
    timed = resting()
    timed.program.timer = timed.at + timedelta(seconds=30)
    timed.take(i.Drain(timed.later()))
    assert timed.effects == [f.Release(timed.at, 0)]


# -- stuck -------------------------------------------------------------------------------------------------------------


def stuck_pauses(bench: Bench) -> list[e.Paused]:
    return [x for x in bench.written if isinstance(x, e.Paused)]


def test_a_run_that_nothing_can_wake_is_paused_with_the_line() -> None:
    """Promise: with the turn that would park it for good."""
    bench = Bench([], program=FakeProgram(has_begun=False, stuck=WHERE))
    bench.open()
    [paused] = stuck_pauses(bench)
    assert paused.reason == "stuck"
    assert WHERE in paused.detail


def test_a_run_that_nothing_can_wake_is_paused_also_where_there_was_nothing_to_write() -> None:
    bench = Bench(program=FakeProgram(stuck=WHERE))
    bench.open()
    [paused] = stuck_pauses(bench)
    assert paused.reason == "stuck"
    assert bench.only(f.Submit).commit.park == Park(None)


def test_a_run_that_a_time_or_a_body_wakes_is_not_stuck() -> None:
    timed = Bench(program=FakeProgram(has_begun=False, stuck=WHERE, timer=AT + timedelta(hours=1)))
    timed.open()
    assert not stuck_pauses(timed)
    warm = Bench(program=FakeProgram(stuck=WHERE, timer=AT + timedelta(hours=1)))
    warm.open()
    assert warm.effects == [f.Release(AT + timedelta(hours=1), 0)]
    running = Bench(program=FakeProgram([[run_step("a")]], has_begun=False, stuck=WHERE))
    running.open()
    assert not stuck_pauses(running)


def test_a_run_that_has_unread_messages_is_not_stuck() -> None:
    bench = flying([], steps=(run_step("b"),))
    bench.program.stuck = WHERE
    bench.lands("a")
    bench.said(Committed(1, 4))
    bench.lands("b")
    assert not stuck_pauses(bench)


def test_a_run_that_is_over_or_paused_is_not_stuck() -> None:
    over = Bench(program=FakeProgram([[DONE]], has_begun=False, stuck=WHERE))
    over.open()
    assert names(over) == ["Claimed", "Completed"]
    paused = Bench(program=FakeProgram([[]], has_begun=False, stuck=WHERE))
    paused.open(PAUSE)
    assert [x.reason for x in stuck_pauses(paused)] == ["operator"]


def test_a_stuck_run_whose_pause_was_refused_is_asked_again() -> None:
    """Promise: the message that refused it may have woken it."""
    bench = Bench([], [DONE], program=FakeProgram([[], [DONE]], has_begun=False, stuck=WHERE))
    bench.open()
    assert stuck_pauses(bench)
    bench.said(REFUSALS["unread"])
    bench.reopened(messages=[SIGNAL], last=3)
    assert names(bench)[-2:] == ["SignalReceived", "Completed"]


@pytest.mark.parametrize(("pause", "reasons"), [(None, []), (PAUSE, ["operator"])], ids=["stuck", "asked for"])
def test_a_pause_that_was_refused_is_written_only_if_it_was_asked_for(
    pause: e.Paused | None, reasons: list[str]
) -> None:
    """Promise: what somebody asked for holds still; what seemed stuck goes on with the message."""
    answers: list[list[c.Command] | Exception] = [[], [run_step("a")]]
    bench = Bench(program=FakeProgram(answers, has_begun=False, stuck=None if pause else WHERE))
    bench.open(*([pause] if pause else []))
    assert len(stuck_pauses(bench)) == 1
    bench.said(REFUSALS["unread"])
    bench.reopened(messages=[SIGNAL], last=3)
    assert [x.reason for x in stuck_pauses(bench)] == reasons
