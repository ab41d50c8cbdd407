"""What a machine tells: the exact facts and reasons that logs, hooks and callers read."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.failure import Failure
from holdfast.core.payload import MAX_INLINE
from holdfast.core.redaction import Redaction
from holdfast.core.step import STOPPED
from holdfast.errors import Diverged
from holdfast.ports.journal import Committed, Park
from holdfast.ports.transactions import RolledBack
from holdfast.turn import effects as f
from holdfast.turn import inputs as i
from holdfast.turn.outcome import Broke, Succeeded
from holdfast.turn.states import State
from tests.unit.turn.machines import AT, REFUSALS, Bench, FakeProgram, run_step, work

SIGNAL = e.SignalReceived(message="m1", name="go")
DONE = c.Complete(value=b"1")
CHILD = c.StartChild(key="child", run="child", workflow="flow", version="", args=b"{}")
SECRET = "correct horse battery staple"
LARGE = b'"' + b"x" * (MAX_INLINE + 1) + b'"'


def flying(*more: list[c.Command] | Exception, steps: tuple[c.RunStep, ...] = (), **options: Any) -> Bench:
    """A run whose bodies run: those of step a, and of these."""
    bench = Bench([run_step("a"), *steps], *more, **options)
    bench.open()
    bench.said()
    return bench


# -- why a run is dropped ----------------------------------------------------------------------------------------------


def test_a_run_that_is_lost_says_why_to_listeners_and_bodies() -> None:
    bench = flying()
    bench.take(i.Lost(bench.later(), "taken over", "expired"))
    assert bench.effects == [f.Dropped("taken over", "expired"), f.Forget("a", "taken over"), f.Leave(False, False)]


def test_a_turn_with_an_unknown_outcome_abandons_the_run() -> None:
    bench = Bench([run_step("tx", tx=True)], [])
    bench.open()
    bench.said()
    bench.take(i.Held(bench.later(), "tx", b"1"))
    bench.take(i.Unknown(bench.later(), "cut"))
    assert bench.effects[0] == f.Dropped("the outcome of its transaction is unknown: cut", "abandoned")


def test_a_journal_that_cannot_be_read_says_why_and_gives_back_what_was_seen() -> None:
    bench = flying([DONE])
    bench.take(i.Messages(bench.later(), [SIGNAL], 4))
    bench.said(REFUSALS["unread"])
    bench.take(i.Unreadable(bench.later(), ValueError("damaged")))
    assert bench.effects[0] == f.Dropped("cannot be rebuilt from its journal: damaged", "abandoned")
    assert bench.effects[-1] == f.Return(bench.at, 4)


def test_a_fence_names_the_epoch_of_the_other_worker() -> None:
    bench = flying([])
    bench.lands("a")
    bench.said(REFUSALS["fenced"])
    assert bench.effects[0] == f.Dropped("fenced by epoch 2", "fenced")


def test_an_input_in_the_wrong_state_is_named() -> None:
    bench = flying()
    with pytest.raises(AssertionError, match="run run: not while it is flying"):
        bench.said()


# -- what became of bodies ---------------------------------------------------------------------------------------------


def test_a_body_that_ended_says_with_which_attempt_and_what_is_recorded() -> None:
    bench = flying([])
    bench.lands("a", b"42")
    told = bench.only(f.StepEnded)
    assert (told.key, told.attempt, told.outcome, told.event) == ("a", 1, Succeeded(b"42"), bench.written[0])


def test_secrets_of_a_run_are_hidden_in_a_failure() -> None:
    """Promise: in what is told and in what is recorded."""
    bench = flying([])
    bench.program.redaction = Redaction([SECRET])
    bench.take(i.Landed(bench.later(), "a", Broke(Failure(type="X", message=f"not {SECRET}"))))
    assert SECRET not in repr(bench.only(f.StepEnded))
    assert SECRET not in repr(bench.written)


def test_secrets_of_a_run_are_hidden_where_a_transaction_could_not_be_committed() -> None:
    bench = Bench([run_step("tx", tx=True)], [])
    bench.program.redaction = Redaction([SECRET])
    bench.open()
    bench.said()
    bench.take(i.Held(bench.later(), "tx", b"1"))
    bench.said(RolledBack(ValueError(f"not {SECRET}")))
    assert SECRET not in repr(bench.only(f.StepEnded))


def test_what_an_attempt_sent_to_streams_is_recorded_with_it() -> None:
    bench = flying([])
    sent = (e.Span("log", 1, 0, 3),)
    bench.take(i.Landed(bench.later(), "a", Succeeded(b"1"), sent=sent))
    [completed] = bench.written
    assert isinstance(completed, e.StepCompleted)
    assert completed.sent == sent


def test_a_body_that_the_end_of_the_run_stopped_records_nothing_of_what_it_sent() -> None:
    bench = flying(steps=(run_step("b"),))
    stopped = Broke(Failure(type=STOPPED, message=""))
    bench.take(i.Landed(bench.later(), "a", stopped, None, "the run has ended", (e.Span("log", 1, 0, 3),)))
    assert bench.only(f.StepEnded).key == "a"


def test_an_abandoned_body_is_told_why() -> None:
    bench = flying([c.AbandonStep(key="b")], steps=(run_step("b"),))
    bench.lands("a")
    bench.said()
    assert bench.only(f.Stop) == f.Stop("b", "the workflow no longer wants it")


def test_an_abandoned_body_that_has_just_landed_has_one_outcome() -> None:
    bench = flying([c.AbandonStep(key="b")], [], steps=(run_step("b", undo=True),))
    bench.lands("a")
    bench.lands("b")
    bench.said()
    assert [type(x) for x in bench.written] == [e.StepCompleted]


def test_a_thread_that_can_be_undone_is_waited_for_when_it_is_abandoned() -> None:
    """Promise: its outcome says whether there is something to undo; of another the run is given back."""
    bench = flying([c.AbandonStep(key="t")], steps=(run_step("t", of=work, undo=True),))
    bench.lands("a")
    bench.said()
    assert bench.state is State.FLYING
    other = flying([c.AbandonStep(key="t")], steps=(run_step("t", of=work),))
    other.lands("a")
    other.said()
    assert other.state is not State.FLYING


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (DONE, "the run has ended"),
        (c.ContinueAs(workflow="flow", version="", args=b"{}"), "the run continues without it"),
    ],
)
def test_bodies_that_are_left_are_told_why(command: c.Command, why: str) -> None:
    bench = flying([command], steps=(run_step("b"),))
    bench.lands("a")
    bench.said()
    assert bench.only(f.Forget) == f.Forget("b", why)


def test_a_thread_that_was_given_up_is_told_that_the_run_was_given_back() -> None:
    bench = Bench([run_step("thread", of=work)], [c.AbandonStep(key="thread"), CHILD])
    bench.open()
    bench.said()
    bench.take(i.Messages(bench.later(), [SIGNAL], 1))
    bench.said()
    bench.take(i.TimeCame(bench.later()))
    bench.take(i.Released(bench.later(), is_ours=True))
    assert bench.effects == [
        f.GivenBack(False),
        f.Rest(False),
        f.Leave(True, False),
        f.Forget("thread", "the run was given back"),
    ]


def test_a_paused_program_tells_the_bodies_that_wait_for_the_writer_why() -> None:
    bench = Bench([run_step("tx", tx=True), run_step("tx:1", tx=True)], Diverged("other"), is_exclusive=True)
    bench.open()
    bench.said()
    bench.take(i.Held(bench.later(), "tx", b"1"))
    assert bench.only(f.Forget) == f.Forget("tx:1", "the run was paused")


# -- turns and ends ----------------------------------------------------------------------------------------------------


def test_a_durable_turn_says_what_was_written_and_how_many_messages_it_had_not_seen() -> None:
    bench = flying([])
    bench.take(i.Messages(bench.later(), [SIGNAL], 2))
    bench.said(Committed(1, 7))
    told = bench.only(f.Turned)
    assert (told.draft.inputs, told.park, told.is_leaving, told.unread) == ([SIGNAL], None, False, 5)


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_turn_is_told_if_it_may_have_something_to_tell(is_plain: bool) -> None:
    """Contract: the first one, one that parks the run, and each one of a program that waits for more than its steps."""
    timer = AT + timedelta(hours=1)
    bench = Bench([run_step("a")], [run_step("b")], [])
    bench.program.is_plain = is_plain
    bench.open()
    bench.said()
    assert bench.only(f.Turned).is_told
    bench.lands("a")
    bench.said()
    assert bench.only(f.Turned).is_told is not is_plain
    bench.program.timer = timer
    bench.lands("b")
    bench.said()
    assert (bench.only(f.Turned).park, bench.only(f.Turned).is_told) == (Park(timer), True)


def test_a_run_that_is_parked_says_until_when() -> None:
    bench = Bench(program=FakeProgram(has_begun=False, timer=AT + timedelta(hours=1)))
    bench.open()
    assert bench.only(f.Submit).commit.park == Park(AT + timedelta(hours=1))
    bench.said()
    assert bench.only(f.Turned).park == Park(AT + timedelta(hours=1))
    assert bench.only(f.Leave) == f.Leave(True, False)


def test_an_end_is_told_as_a_child_would_tell_it() -> None:
    bench = Bench([DONE])
    bench.open()
    at = bench.at
    bench.said()
    told = bench.only(f.Ended).end
    assert (told.key, told.run, told.status, bytes(told.value), told.ended_at) == ("", "run", "completed", b"1", at)


def test_large_arguments_of_the_next_life_come_with_it() -> None:
    bench = Bench([c.ContinueAs(workflow="flow", version="", args=LARGE)])
    bench.open()
    bench.said()
    leave = bench.only(f.Leave)
    assert leave.blobs == {leave.anew.blob: LARGE}


def test_a_large_outcome_that_was_refused_is_kept_whole() -> None:
    """Promise: its blob was not stored, so the value itself is the input again."""
    bench = flying([DONE], [])
    bench.lands("a", LARGE)
    [stored] = bench.only(f.Submit).commit.blobs.values()
    assert stored == LARGE
    bench.said(REFUSALS["unread"])
    [kept] = bench.only(f.Reload).kept
    assert (kept.blob, bytes(kept.value)) == ("", LARGE)


def test_an_unexpected_error_of_the_program_is_told() -> None:
    error = ValueError("broken")
    bench = flying(error)
    bench.take(i.Messages(bench.later(), [SIGNAL], 1))
    assert bench.only(f.Broken).error is error
    assert bench.only(f.Submit).commit.is_consuming is False  # the message is not in the turn


def test_a_run_that_leaves_while_it_rests_wants_no_slot() -> None:
    bench = Bench([CHILD])
    bench.open()
    bench.said()
    bench.take(i.Lost(bench.later(), "taken over"))
    assert bench.effects[1:] == [f.Rest(False), f.Leave(False, False)]
