"""How a machine begins: what it takes up, what it reads first, and when it is too early to begin at all."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.failure import Failure
from holdfast.core.rounds import ROUND
from holdfast.turn import effects as f
from holdfast.turn import inputs as i
from tests.unit.turn.machines import AT, REFUSALS, Bench, FakeProgram, limited, run_step

SIGNAL = e.SignalReceived(message="m1", name="go")
DONE = c.Complete(value=b"1")
LATER = AT + timedelta(hours=1)


def names(bench: Bench) -> list[str]:
    return [type(x).__name__ for x in bench.written]


def in_flight(*keys: str, **started: object) -> Bench:
    """A run whose bodies of these steps run."""
    bench = Bench([run_step(key) for key in keys], **started)  # type: ignore[arg-type]
    bench.open()
    bench.said()
    return bench


# -- what is taken up --------------------------------------------------------------------------------------------------


def test_a_new_machine_has_read_nothing_and_ends_nothing() -> None:
    bench = Bench([run_step("a")])
    assert (bench.machine.is_ending, bench.machine.seen) == (False, 0)
    bench.open()
    commit = bench.only(f.Submit).commit
    assert (commit.no, commit.inbox_seen, commit.is_consuming) == (7, 0, False)


def test_a_claim_that_is_refused_is_said_again_with_all_that_it_begins_again() -> None:
    again = in_flight("a").taken_over([], [], steps=[run_step("a")])
    again.take(again.opened_again(()))
    again.said(REFUSALS["unread"])
    again.reopened(messages=[SIGNAL], last=3)
    assert again.written[0] == e.Claimed(worker="worker", restarted=("a",))
    again.said()
    assert again.only(f.Start).attempt == 2


def test_a_claim_is_said_where_nothing_begins_again() -> None:
    bench = in_flight("a")
    bench.breaks("a")
    bench.said()
    again = bench.taken_over([], steps=[run_step("a")])
    again.take(again.opened_again((), [SIGNAL], 1))
    assert again.written[0] == e.Claimed(worker="worker")


def test_a_run_that_is_opened_under_the_same_epoch_says_what_it_begins_again() -> None:
    """Promise: no attempt begins that the journal does not count."""
    again = in_flight("a").taken_over([], steps=[run_step("a")])
    again.machine.epoch = 1
    again.take(again.opened_again(()))
    assert again.written[0] == e.Claimed(worker="worker", restarted=("a",))


def test_a_limited_step_that_waited_is_not_begun_with_the_claim() -> None:
    """Promise: an unlimited one that had not begun is; the limited one wants its place first."""
    steps = [run_step("b"), run_step("l", of=limited)]
    bench = Bench([run_step("a")], [*steps])
    bench.open()
    bench.said()
    bench.take(i.Drain(bench.later()))
    bench.lands("a")
    bench.said()
    again = bench.taken_over([], steps=steps)
    again.take(again.opened_again(()))
    claimed = again.written[0]
    assert isinstance(claimed, e.Claimed)
    assert (claimed.restarted, claimed.begun) == ((), ("b",))
    again.said()
    assert again.only(f.Start).command.key == "b"
    assert [ask.step for ask in again.only(f.MovePlaces).asks] == ["l"]


def test_steps_that_had_not_begun_when_an_end_was_refused_begin_with_the_attempt_they_had() -> None:
    """Promise: also those that waited for the worker to leave, before the end took the others back."""
    bench = Bench([run_step("a"), run_step("c"), run_step("d")], [run_step("b")], [DONE], [], withdraw=list)
    bench.open()
    bench.said()
    bench.take(i.Drain(bench.later()))
    bench.lands("a")
    bench.said()
    assert not bench.all(f.Start)
    bench.lands("c")
    bench.program.steps = {"b": run_step("b"), "d": run_step("d")}
    bench.said(REFUSALS["unread"])
    kept = bench.only(f.Reload).kept
    bench.reopened(*kept, messages=[SIGNAL], last=3)
    assert not [x for x in bench.written if isinstance(x, e.Claimed)]
    assert e.Released(worker="worker", unstarted=("d", "b")) in bench.written


# -- rounds ------------------------------------------------------------------------------------------------------------


def due() -> Bench:
    """Step b waits for the next round."""
    bench = Bench([run_step("a")], [run_step("b")], in_rounds=True, parent="parent", parent_key="k")
    bench.open()
    bench.said()
    bench.lands("a")
    bench.said()
    return bench


def test_a_step_that_waits_for_a_round_does_not_begin_for_another_message() -> None:
    again = due().taken_over([], steps=[run_step("b")])
    again.take(again.opened_again((), [SIGNAL], 1))
    assert again.written[-1] == e.Released(worker="worker", unstarted=("b",), next_round=True)
    again.said()
    assert again.only(f.Leave).is_warm
    assert not again.all(f.Start)


def test_a_step_that_waits_for_a_round_begins_with_it() -> None:
    again = due().taken_over([], steps=[run_step("b")])
    given = e.SignalReceived(message="m", name=ROUND, sender="parent", value=msgspec.Raw(b'"k"'))
    again.take(again.opened_again((), [given], 1))
    assert names(again) == ["Claimed", "SignalReceived"]
    again.said()
    assert (again.only(f.Start).command.key, again.only(f.Start).attempt) == ("b", 1)


def test_a_worker_that_leaves_stays_so_when_it_reads_a_run_in_rounds_again() -> None:
    """Promise: nothing of it stays warm."""
    again = due().taken_over([], [], steps=[run_step("b")])
    again.take(again.opened_again((), [SIGNAL], 1))
    again.take(i.Drain(again.later()))
    again.said(REFUSALS["unread"])
    again.reopened(messages=[SIGNAL, SIGNAL], last=2)
    again.said()
    assert again.only(f.Turned).is_leaving
    assert not again.only(f.Leave).is_warm


# -- too early ---------------------------------------------------------------------------------------------------------


def test_a_delayed_run_begins_at_its_very_moment() -> None:
    bench = Bench([run_step("a")], available_at=AT + timedelta(seconds=1))
    bench.open()
    assert names(bench) == ["Claimed", "StepScheduled"]


def test_a_delayed_run_is_given_back_until_its_deadline_if_that_is_earlier() -> None:
    bench = Bench(available_at=LATER, deadline=AT + timedelta(minutes=5))
    bench.open()
    assert bench.effects == [f.Release(AT + timedelta(minutes=5), 0)]


def test_a_delayed_run_is_given_back_until_it_begins_if_its_deadline_is_later() -> None:
    bench = Bench(available_at=LATER, deadline=LATER + timedelta(minutes=5))
    bench.open()
    assert bench.effects == [f.Release(LATER, 0)]


def test_an_input_that_joins_a_delayed_run_puts_it_off() -> None:
    bench = Bench(available_at=LATER)
    bench.open(e.InputGiven(message="m", begins_at=LATER + timedelta(hours=1)))
    assert bench.effects == [f.Release(LATER + timedelta(hours=1), 1)]


def test_an_input_that_comes_too_late_does_not_put_off_a_run_that_has_begun() -> None:
    bench = Bench([], program=FakeProgram())
    bench.open(e.InputGiven(message="m", begins_at=LATER))
    assert names(bench) == ["Claimed", "InputGiven"]


def test_a_run_waits_for_the_end_of_those_before_it() -> None:
    """Promise: no time wakes it, and the end of another run does not either."""
    bench = Bench(after=("x",))
    bench.open(e.PredecessorEnded(run="y"))
    assert bench.effects == [f.Release(None, 1)]


def test_a_run_begins_when_those_before_it_have_ended() -> None:
    bench = Bench([run_step("a")], after=("x",))
    bench.open(e.PredecessorEnded(run="x"))
    assert names(bench) == ["Claimed", "PredecessorEnded", "StepScheduled"]


def failed_pass() -> Bench:
    """An error outside its steps left the body; it begins again in ten seconds, or in half of that."""
    bench = Bench([c.Fail(failure=Failure(type="ValueError", message="no"))], workflow="patient")
    bench.open()
    bench.said()
    return bench


def test_a_pass_that_failed_leaves_no_program_and_has_no_next_life() -> None:
    bench = failed_pass()
    leave = bench.only(f.Leave)
    assert (leave.is_warm, leave.is_over, leave.anew) == (False, False, None)


def test_a_new_pass_begins_at_its_very_moment_before_anything_else() -> None:
    bench = failed_pass()
    planned = bench.machine.run.retry
    assert planned is not None
    early = bench.taken_over([])
    early.program.has_begun = False
    early.at = planned.at - timedelta(seconds=1, microseconds=1)
    early.take(early.opened_again((), [SIGNAL], 1))
    assert early.effects == [f.Release(planned.at, 1)]
    on_time = bench.taken_over([])
    on_time.program.has_begun = False
    on_time.at = planned.at - timedelta(seconds=1)
    on_time.take(on_time.opened_again((), [SIGNAL], 1))
    assert on_time.written == (e.Claimed(worker="worker"), e.PassStarted(number=2), SIGNAL)


# -- what comes in -----------------------------------------------------------------------------------------------------


def test_what_was_read_without_a_message_is_read() -> None:
    """Promise: what the inbox held that is no longer wanted does not come again."""
    bench = Bench([])
    bench.open(last=3)
    assert bench.only(f.Submit).commit.inbox_seen == 3


def test_an_update_comes_before_outcomes_and_after_earlier_messages() -> None:
    bench = in_flight("a", "b", "c")
    bench.take(i.Messages(bench.later(), [SIGNAL], 1))
    bench.lands("a")
    signal = e.SignalReceived(message="m2", name="go")
    update = e.UpdateReceived(message="u1", name="ask")
    bench.take(i.Messages(bench.later(), [signal, update], 3))
    bench.said()
    assert [type(x) for x in bench.written] == [e.StepCompleted, e.SignalReceived, e.UpdateReceived]
    other = in_flight("a", "b", "c")
    other.take(i.Messages(other.later(), [SIGNAL], 1))
    other.lands("a")
    other.take(i.Messages(other.later(), [update], 2))
    other.said()
    assert [type(x) for x in other.written] == [e.UpdateReceived, e.StepCompleted]


def test_only_a_turn_that_took_a_message_consumes() -> None:
    bench = in_flight("a", "b")
    bench.take(i.Messages(bench.later(), [SIGNAL], 1))
    assert bench.only(f.Submit).commit.is_consuming
    bench.said()
    bench.lands("a")
    assert bench.only(f.Submit).commit.is_consuming is False


def test_a_run_without_steps_is_read_again_without_a_second_claim() -> None:
    """Promise: where the first turn of a run without steps is durable, the next one that is refused claims nothing."""
    child = c.StartChild(key="c", run="c", workflow="flow", version="", args=b"{}")
    bench = Bench([child], [DONE], [])
    bench.open()
    bench.said()
    bench.take(i.Messages(bench.later(), [SIGNAL], 1))
    bench.said(REFUSALS["unread"])
    bench.reopened(SIGNAL)
    assert names(bench) == ["SignalReceived"]
