"""What a machine decides: each promise seen by itself, without a store, a loop or a clock."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.failure import Failure
from holdfast.core.step import STOPPED
from holdfast.errors import Diverged
from holdfast.ports.journal import Committed, Park
from holdfast.turn import effects as f
from holdfast.turn import inputs as i
from holdfast.turn.outcome import Broke
from holdfast.turn.states import State
from tests.unit.turn.machines import AT, REFUSALS, Bench, FakeProgram, run_step

SIGNAL = e.SignalReceived(message="m1", name="go")
CANCEL = e.CancelRequested(message="c1", reason="enough")
PAUSE = e.Paused(reason="operator", detail="wait")
DONE = c.Complete(value=b"1")


def kinds(events: object) -> list[str]:
    return [type(x).__name__ for x in events]  # type: ignore[attr-defined]


def test_a_body_starts_only_after_its_row_is_durable() -> None:
    bench = Bench([run_step("a")])
    bench.open()
    assert not bench.all(f.Start)
    assert kinds(bench.written) == ["Claimed", "StepScheduled"]
    bench.said()
    assert (bench.only(f.Start).command.key, bench.only(f.Start).attempt) == ("a", 1)
    assert bench.state is State.FLYING


def test_a_body_expires_after_its_own_time() -> None:
    bench = Bench([run_step("a", timeout=timedelta(seconds=5))])
    bench.open()
    bench.said()
    assert bench.only(f.Start).expires_at == bench.at + timedelta(seconds=5)


def test_an_outcome_is_the_input_of_the_next_turn() -> None:
    bench = Bench([run_step("a")], [run_step("b")])
    bench.open()
    bench.said()
    bench.lands("a", b"42")
    assert kinds(bench.written) == ["StepCompleted", "StepScheduled"]
    assert bench.only(f.StepEnded).key == "a"
    bench.said()
    assert bench.only(f.Start).command.key == "b"


def test_what_happens_during_a_write_waits_for_the_verdict() -> None:
    """Promise: one turn is on its way at a time."""
    bench = Bench([run_step("a"), run_step("b")])
    bench.open()
    bench.said()
    bench.lands("a")
    bench.lands("b")
    assert not bench.all(f.Submit)
    bench.said()
    assert kinds(bench.written) == ["StepCompleted"]


def test_news_during_a_write_is_looked_at_afterwards() -> None:
    bench = Bench([run_step("a")])
    bench.open()
    bench.take(i.News(bench.later()))
    assert bench.effects == []
    bench.said()
    assert bench.all(f.LookInbox)
    bench.take(i.News(bench.later()))
    assert bench.effects == [f.LookInbox()]


def test_a_commit_that_shows_unread_messages_is_followed_by_a_look() -> None:
    bench = Bench([run_step("a")])
    bench.open()
    bench.said(Committed(1, 4))
    assert bench.all(f.LookInbox)


def test_an_end_is_left_told_and_then_its_bodies_are_forgotten() -> None:
    """Promise: no body is stopped before the end is durable, and the end names those that run."""
    bench = Bench([run_step("a"), run_step("b")], [DONE])
    bench.open()
    bench.said()
    bench.lands("a")
    end = bench.written[-1]
    assert isinstance(end, e.Completed)
    assert end.left == ("b",)
    assert not bench.all(f.Forget)
    bench.said()
    assert kinds(bench.effects) == ["Turned", "Leave", "Ended", "Forget"]
    assert bench.only(f.Leave).is_over
    assert bench.state is State.GONE


def test_bodies_that_have_not_begun_are_taken_back_before_an_end() -> None:
    """Promise: none begins after the end; if that is refused, they begin."""
    bench = Bench([run_step("a"), run_step("b")], [DONE], [], withdraw=lambda keys: ["b"] if "b" in keys else [])
    bench.program.steps = {"b": run_step("b")}
    bench.open()
    bench.said()
    bench.lands("a")
    assert bench.written[-1].left == ()  # type: ignore[union-attr]
    kept = bench.said(REFUSALS["unread"])
    reload = kept[-1]
    assert isinstance(reload, f.Reload)
    assert kinds(reload.kept) == ["StepCompleted"]
    bench.reopened(*reload.kept, messages=[SIGNAL], last=3)
    assert kinds(bench.written) == ["StepCompleted", "SignalReceived"]
    bench.said()
    assert bench.only(f.Start).attempt == 1


def test_a_refused_end_leaves_running_bodies_alone() -> None:
    bench = Bench([run_step("a"), run_step("b")], [DONE], [])
    bench.open()
    bench.said()
    bench.lands("a")
    bench.said(REFUSALS["unread"])
    assert bench.state is State.REBUILDING
    bench.program.steps = {"b": run_step("b")}
    bench.reopened(e.StepCompleted(key="a"), messages=[SIGNAL], last=3)
    assert not bench.all(f.Forget)
    assert kinds(bench.written) == ["StepCompleted", "SignalReceived"]
    bench.said()
    assert not bench.all(f.Start)


def test_a_step_that_was_cut_off_begins_again_with_the_next_attempt() -> None:
    """Promise: a new epoch says who has the run, and which bodies it begins again."""
    bench = Bench([run_step("a")])
    bench.open()
    bench.said()
    again = Bench([], program=FakeProgram(steps={"a": run_step("a")}))
    again.durable = bench.durable
    again.machine.epoch = 2
    again.take(again.opened_again(()))
    claimed = again.written[0]
    assert isinstance(claimed, e.Claimed)
    assert (claimed.worker, claimed.restarted) == ("worker", ("a",))
    again.said()
    assert again.only(f.Start).attempt == 2


def test_a_held_outcome_is_written_in_its_transaction() -> None:
    bench = Bench([run_step("tx", tx=True), run_step("tx:1", tx=True)], [], [])
    bench.open()
    bench.said()
    bench.take(i.Held(bench.later(), "tx", b"1"))
    assert bench.only(f.Submit).where == f.Within("tx")
    bench.take(i.Held(bench.later(), "tx:1", b"2"))
    assert not bench.effects
    bench.said()
    assert bench.only(f.StepEnded).key == "tx"
    assert bench.only(f.Submit).where == f.Within("tx:1")


def test_a_transaction_that_rolls_back_is_a_failed_attempt() -> None:
    bench = Bench([run_step("tx", tx=True)], [], [])
    bench.program.steps = {"tx": run_step("tx", tx=True)}
    bench.open()
    bench.said()
    bench.take(i.Held(bench.later(), "tx", b"1"))
    bench.said(REFUSALS["rolled back"])
    assert bench.only(f.Reload).kept == []
    bench.reopened()
    [failed] = bench.written
    assert isinstance(failed, e.AttemptFailed)
    assert failed.failure.type == "ValueError"
    assert bench.only(f.Submit).where == f.GROUP


def test_a_pause_that_was_rolled_back_is_asked_for_still() -> None:
    """Promise: it is not written before an end, which a paused run cannot take."""
    bench = Bench([run_step("tx", tx=True)], [], [c.Fail(failure=Failure(type="X", message=""), from_step=True)])
    bench.program.steps = {"tx": run_step("tx", tx=True)}
    bench.open()
    bench.said()
    bench.take(i.Messages(bench.later(), [PAUSE], 1))
    bench.take(i.Held(bench.later(), "tx", b"1"))
    assert "Paused" in kinds(bench.written)
    bench.said(REFUSALS["rolled back"])
    assert bench.only(f.Reload).kept == []
    bench.reopened()
    assert kinds(bench.written) == ["AttemptFailed", "Failed"]


def test_what_became_of_a_transaction_may_be_unknown() -> None:
    bench = Bench([run_step("tx", tx=True)], [])
    bench.open()
    bench.said()
    bench.take(i.Held(bench.later(), "tx", b"1"))
    bench.take(i.Unknown(bench.later(), "the line was cut"))
    assert kinds(bench.effects) == ["Dropped", "Leave", "Doubt"]
    assert "the line was cut" in bench.only(f.Dropped).why


def test_a_held_outcome_of_a_lost_run_is_undone() -> None:
    bench = Bench([run_step("tx", tx=True), run_step("tx:1", tx=True)], [])
    bench.open()
    bench.said()
    bench.take(i.Held(bench.later(), "tx", b"1"))
    bench.take(i.Held(bench.later(), "tx:1", b"1"))
    bench.take(i.Lost(bench.later(), "taken over"))
    assert [x.key for x in bench.all(f.GiveUp)] == ["tx:1"]  # the other is being committed, which ends by itself
    bench.said(REFUSALS["unread"])
    assert [x.key for x in bench.all(f.GiveUp)] == ["tx"]


@pytest.mark.parametrize(("said", "doubts"), [("fenced", 0), ("ours", 1)])
def test_a_fenced_run_is_dropped_without_a_trace(said: str, doubts: int) -> None:
    """Promise: under our own epoch it is the store that lost rows, so what it counts as ours is looked at."""
    bench = Bench([run_step("a")], [])
    bench.open()
    bench.said()
    bench.lands("a")
    bench.said(REFUSALS[said])
    assert len(bench.all(f.Doubt)) == doubts
    assert (bench.only(f.Leave).is_warm, bench.only(f.Leave).is_over) == (False, False)
    assert bench.state is State.GONE


def test_a_journal_that_cannot_be_read_gives_the_run_back() -> None:
    bench = Bench([DONE])
    bench.open()
    bench.said(REFUSALS["unread"])
    bench.take(i.Unreadable(bench.later(), ValueError("damaged")))
    assert kinds(bench.effects) == ["Dropped", "Leave", "Return"]
    assert bench.only(f.Return).until == bench.at


def test_a_run_may_be_born_with_its_first_turn() -> None:
    bench = Bench([run_step("a")], [], no=0)
    bench.open()
    assert bench.only(f.Submit).where is f.BIRTH
    bench.said(Committed(1, 0), no=12)
    assert bench.machine.no == 12
    bench.lands("a")
    assert bench.only(f.Submit).where is f.GROUP
    assert bench.only(f.Submit).commit.no == 12


def test_a_cancel_comes_first_and_has_its_grace() -> None:
    bench = Bench([run_step("a")], [])
    bench.open()
    bench.said()
    bench.take(i.Messages(bench.later(), [SIGNAL, CANCEL], 2))
    cancel, signal = bench.written
    assert isinstance(cancel, e.CancelRequested)
    assert cancel.grace_until == bench.at + timedelta(minutes=5)
    assert isinstance(signal, e.SignalReceived)
    assert bench.only(f.Submit).commit.inbox_seen == 2
    assert bench.only(f.Submit).commit.is_consuming


def test_a_clean_up_that_takes_too_long_is_ended() -> None:
    """Promise: the end is imposed, whatever the program wants."""
    bench = Bench([run_step("a")], [])
    bench.open()
    bench.said()
    bench.take(i.Messages(bench.later(), [CANCEL], 1))
    bench.said()
    bench.take(i.TimeCame(bench.later(60)))
    assert bench.state is State.FLYING
    bench.take(i.TimeCame(bench.later(600)))
    end = bench.written[-1]
    assert isinstance(end, e.Cancelled)
    assert (end.imposed, end.left) == (True, ("a",))


def test_where_there_is_one_writer_no_turn_is_written_while_a_body_has_it() -> None:
    """Promise: the turn would wait for the body, and the body's outcome for the turn."""
    bench = Bench([run_step("tx", tx=True)], [], is_exclusive=True)
    bench.open()
    bench.said()
    bench.take(i.Messages(bench.later(), [SIGNAL], 1))
    assert (bench.effects, bench.state) == ([], State.FLYING)
    bench.take(i.Held(bench.later(), "tx", b"1"))
    assert kinds(bench.written) == ["SignalReceived", "StepCompleted"]


def test_an_imposed_end_takes_the_writer_from_a_body() -> None:
    bench = Bench([run_step("a")], [run_step("tx", tx=True)], is_exclusive=True)
    bench.open()
    bench.said()
    bench.take(i.Messages(bench.later(), [CANCEL], 1))
    bench.said()
    assert bench.only(f.Start).command.key == "tx"
    bench.at += timedelta(minutes=10)
    bench.take(i.TimeCame(bench.at))
    assert kinds(bench.effects) == ["Forget", "Submit"]
    assert bench.written[-1].left == ("a", "tx")  # type: ignore[union-attr]


def test_a_pause_waits_for_the_bodies_and_names_what_has_not_begun() -> None:
    bench = Bench([run_step("a")], [run_step("b")])
    bench.open()
    bench.said()
    bench.take(i.Messages(bench.later(), [PAUSE], 1))
    assert bench.state is State.FLYING
    bench.lands("a")
    assert kinds(bench.written) == ["StepCompleted", "Paused", "Released", "StepScheduled"]
    released = bench.written[2]
    assert isinstance(released, e.Released)
    assert released.unstarted == ("b",)
    assert bench.only(f.Submit).commit.park == Park(None)
    bench.said()
    assert not bench.only(f.Leave).is_warm
    assert not bench.all(f.Start)


def test_a_worker_that_leaves_gives_the_run_back_once_it_is_quiet() -> None:
    bench = Bench([run_step("a")], [run_step("b")])
    bench.open()
    bench.said()
    bench.take(i.Drain(bench.later()))
    assert bench.state is State.FLYING
    bench.lands("a")
    assert kinds(bench.written) == ["StepCompleted", "Released", "StepScheduled"]
    assert bench.only(f.Submit).commit.park == Park(bench.at)
    bench.said()
    assert bench.only(f.Turned).is_leaving
    assert not bench.only(f.Leave).is_warm


@pytest.mark.parametrize(
    ("error", "reason", "is_told"),
    [(Diverged("other"), "diverged", 0), (ValueError("broken"), "undecodable", 1)],
)
def test_a_program_that_cannot_continue_is_paused(error: Exception, reason: str, is_told: int) -> None:
    bench = Bench([run_step("a")], error)
    bench.open()
    bench.said()
    bench.lands("a")
    [paused] = [x for x in bench.written if isinstance(x, e.Paused)]
    assert (paused.reason, paused.detail) == (reason, str(error))
    assert len(bench.all(f.Broken)) == is_told
    bench.said()
    assert bench.state is State.GONE


def test_a_gate_holds_the_steps_after_the_first_round() -> None:
    """Promise: they are named, the run is given back, and no body of theirs begins."""
    bench = Bench([run_step("a")], [run_step("b")], in_rounds=True, parent="parent", parent_key="k")
    bench.open()
    bench.said()
    assert bench.only(f.Start).command.key == "a"
    bench.lands("a")
    released = next(x for x in bench.written if isinstance(x, e.Released))
    assert (released.unstarted, released.next_round) == (("b",), True)
    assert bench.only(f.Submit).commit.park == Park(None)
    assert [x.kind for x in bench.only(f.Submit).commit.messages] == ["signal"]
    bench.said()
    assert bench.only(f.Leave).is_warm
    assert not bench.only(f.Turned).is_leaving


def test_an_early_wake_leaves_a_delayed_run_where_it_is() -> None:
    later = AT + timedelta(hours=1)
    bench = Bench(available_at=later)
    bench.open(SIGNAL)
    assert bench.effects == [f.Release(later, 1)]
    bench.take(i.Released(bench.later(), is_ours=True))
    assert kinds(bench.effects) == ["GivenBack", "Leave"]
    assert bench.only(f.Leave).is_warm
    assert bench.program.fed == []


def test_a_cancel_reaches_a_delayed_run_at_once() -> None:
    bench = Bench([c.Stop(reason="enough")], available_at=AT + timedelta(hours=1))
    bench.open(CANCEL)
    assert kinds(bench.written) == ["Claimed", "CancelRequested", "Cancelled"]


def test_a_run_that_another_worker_took_is_dropped_when_it_is_given_back() -> None:
    bench = Bench(available_at=AT + timedelta(hours=1))
    bench.open()
    bench.take(i.Released(bench.later(), is_ours=False))
    assert kinds(bench.effects) == ["Dropped", "Leave"]


def test_a_parent_stays_a_little_and_is_then_given_back() -> None:
    child = c.StartChild(key="c", run="c", workflow="flow", version="", args=b"{}")
    bench = Bench([child])
    bench.open()
    assert bench.only(f.Submit).commit.park is None
    bench.said()
    assert bench.state is State.IDLE
    assert bench.effects[1:] == [f.Rest(True), f.WakeAt(bench.at + timedelta(milliseconds=50))]
    bench.take(i.TimeCame(bench.later(), is_looking=True))
    assert bench.state is State.IDLE
    bench.take(i.TimeCame(bench.later()))
    assert bench.only(f.Release).until is None
    bench.take(i.Released(bench.later(), is_ours=True))
    assert kinds(bench.effects) == ["GivenBack", "Rest", "Leave"]


def test_a_near_timer_is_waited_for_in_memory() -> None:
    timer = AT + timedelta(seconds=1.9)
    bench = Bench(program=FakeProgram(has_begun=False, timer=timer))
    bench.open()
    assert bench.only(f.Submit).commit.park is None
    bench.take(i.Verdict(bench.at, Committed(1, 0)))
    assert bench.effects[1:] == [f.Rest(True), f.WakeAt(timer)]
    bench.take(i.TimeCame(bench.later()))
    assert kinds(bench.written) == ["TimerFired"]
    assert bench.effects[0] == f.Rest(False)


def test_an_abandoned_body_is_asked_to_stop_once_that_is_durable() -> None:
    bench = Bench([run_step("a"), run_step("b", undo=True)], [c.AbandonStep(key="b")])
    bench.open()
    bench.said()
    bench.lands("a")
    assert not bench.all(f.Stop)
    bench.said()
    assert bench.only(f.Stop).key == "b"
    bench.breaks("b", STOPPED, stopped="the workflow no longer wants it")
    assert kinds(bench.written) == ["StepFailed"]


def test_an_abandoned_step_that_never_began_has_an_outcome_if_it_can_be_undone() -> None:
    bench = Bench([run_step("a"), run_step("b", undo=True)], [], [c.AbandonStep(key="b")], [])
    bench.open()
    bench.said()
    bench.breaks("b")
    bench.said()
    bench.lands("a")
    bench.said()
    assert kinds(bench.written) == ["StepFailed"]


@pytest.mark.parametrize(
    ("stopped", "failure"),
    [(None, "CancelledError"), ("timed out after 5s", "TimeoutError"), ("the run has ended", "")],
)
def test_what_a_stopped_body_means(stopped: str | None, failure: str) -> None:
    """Promise: one that cancelled itself or was timed out has failed; one that the run's end stopped says nothing."""
    bench = Bench([run_step("a"), run_step("b")], [])
    bench.open()
    bench.said()
    bench.breaks("a", STOPPED, stopped)
    if not failure:
        assert not bench.all(f.Submit)
        return
    [failed] = bench.written
    assert isinstance(failed, e.AttemptFailed)
    assert failed.failure.type == failure


def test_progress_is_kept_with_a_failed_attempt() -> None:
    bench = Bench([run_step("a")], [])
    bench.open()
    bench.said()
    bench.take(i.Landed(bench.later(), "a", Broke(Failure(type="X", message="")), b"7"))
    [failed] = bench.written
    assert isinstance(failed, e.AttemptFailed)
    assert bytes(failed.progress) == b"7"


def test_a_program_that_comes_too_late_is_closed() -> None:
    bench = Bench([DONE])
    bench.open()
    bench.said(REFUSALS["unread"])
    bench.take(i.Lost(bench.later(), "taken over"))
    bench.reopened()
    assert bench.effects == [f.Close(bench.program)]


def test_time_never_goes_back() -> None:
    """Promise: a turn is not older than the row before it, whatever the clock says."""
    bench = Bench([run_step("a")], [])
    bench.open()
    bench.said()
    written_at = bench.machine.run.updated_at
    bench.at -= timedelta(hours=1)
    bench.lands("a")
    assert bench.program.fed[-1][0] == written_at
