"""Limited steps in the hand of a machine: they wait, ask, begin, and give their places back."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.failure import Failure
from holdfast.ports.journal import Committed, Park
from holdfast.turn import effects as f
from holdfast.turn import inputs as i
from holdfast.turn.limited import Lines
from holdfast.turn.outcome import Broke
from holdfast.turn.states import State
from tests.unit.turn.machines import AT, Bench, act, impatient, keyed, limited, run_step

DONE = c.Complete(value=b"1")


def asked(*commands: c.RunStep) -> Bench:
    """A run that has asked for these steps, which are recorded."""
    bench = Bench(list[c.Command](commands))
    bench.program.steps = {command.key: command for command in commands}
    bench.open()
    bench.said()
    return bench


def test_a_limited_step_is_recorded_as_waiting_and_asks() -> None:
    """Promise: its body does not start with the turn that schedules it."""
    bench = Bench([run_step("a", of=limited)])
    bench.open()
    [waits] = [event for event in bench.written if isinstance(event, e.Limited)]
    assert waits == e.Limited(waiting={"a": "api"})
    bench.said()
    assert not bench.all(f.Start)
    (ask,) = bench.only(f.MovePlaces).asks
    assert (ask.step, [demand.name for demand in ask.demands]) == ("a", ["api"])
    assert bench.machine.run.steps["a"].is_unstarted


def test_a_step_begins_once_that_is_durable() -> None:
    """Promise: the store's yes is recorded first."""
    bench = asked(run_step("a", of=limited))
    bench.take(i.Places(bench.later(), ("a",), ("a",)))
    assert e.Limited(begun=("a",)) in bench.written
    assert not bench.all(f.Start)
    bench.said()
    assert bench.only(f.Start).attempt == 1


def test_a_run_that_is_refused_is_given_back_without_a_turn() -> None:
    """Promise: nothing is written, and the store is told that it is parked."""
    bench = asked(run_step("a", of=limited))
    bench.take(i.Places(bench.later(), ("a",)))
    assert bench.only(f.Release).until is None
    bench.take(i.Released(bench.later(), is_ours=True))
    assert bench.only(f.MovePlaces).is_parked


def test_a_run_that_the_store_does_not_count_as_held_is_not_parked() -> None:
    """Promise: nothing would wake it, since none of its steps stands in line; it asks again in a moment."""
    bench = asked(run_step("a", of=limited))
    bench.take(i.Places(bench.later(), ("a",), is_ours=False))
    assert not bench.all(f.Release)
    assert not bench.all(f.MovePlaces)
    assert bench.machine.state is State.IDLE
    wake = bench.only(f.WakeAt)
    bench.take(i.TimeCame(wake.at))
    assert [ask.step for ask in bench.only(f.MovePlaces).asks] == ["a"]


def test_a_step_that_is_no_longer_wanted_does_not_put_its_run_off() -> None:
    """Promise: a run that waits for nothing does not stay in memory to ask again."""
    lines = Lines()
    lines.wait(run_step("a", of=limited))
    lines.put_off()
    assert lines.is_put_off
    lines.leave("a")
    assert not lines.is_put_off


def test_a_place_is_free_when_the_outcome_is_durable() -> None:
    """Promise: neither earlier nor in another order; the next attempt asks in the same move."""
    bench = asked(run_step("a", of=limited), run_step("b", of=limited))
    bench.take(i.Places(bench.later(), ("a", "b"), ("a",)))
    bench.said()
    bench.lands("a")
    assert not bench.all(f.MovePlaces)
    bench.said()
    move = bench.only(f.MovePlaces)
    assert (move.drops, [ask.step for ask in move.asks]) == (("a",), ["b"])


def test_a_hint_makes_a_held_run_ask_again() -> None:
    """Promise: a run that is held for another body hears that a place may be free."""
    bench = asked(run_step("a", of=limited), run_step("b", of=act))
    bench.take(i.Places(bench.later(), ("a",)))
    assert bench.state is State.FLYING
    bench.take(i.News(bench.later()))
    assert [ask.step for ask in bench.only(f.MovePlaces).asks] == ["a"]


def test_a_step_that_waited_long_enough_fails() -> None:
    """Promise: `limit_wait` counts from when it was recorded as waiting. No body ran, so no attempt is counted."""
    bench = asked(run_step("a", of=impatient))
    bench.take(i.Places(bench.later(), ("a",)))
    until = bench.only(f.Release).until
    assert until is not None
    lines = bench.machine._lines
    assert lines is not None
    failed = lines.expired(bench.machine.run, until)
    assert [(x.key, x.failure.type, x.attempts) for x in failed if isinstance(x, e.StepFailed)] == [
        ("a", "LimitReached", 0)
    ]
    assert until - bench.machine.run.steps["a"].limited_at == timedelta(seconds=10)


def test_an_attempt_that_holds_its_limit_back_did_not_fail() -> None:
    """Promise: the next attempt waits, the limit is quiet, and the budget is whole."""
    bench = asked(run_step("a", of=limited))
    bench.take(i.Places(bench.later(), ("a",), ("a",)))
    bench.said()
    broke = Broke(Failure(type="RetryAfter", message=""), not_before=timedelta(minutes=1), limit="api")
    bench.take(i.Landed(bench.later(), "a", broke))
    [held] = [event for event in bench.written if isinstance(event, e.HeldBack)]
    bench.said()
    move = bench.only(f.MovePlaces)
    assert [(hold.name, hold.until) for hold in move.holds] == [("api", held.until)]
    assert (move.drops, [ask.step for ask in move.asks]) == (("a",), ["a"])
    step = bench.machine.run.steps["a"]
    assert (step.attempt, step.failures, step.is_unstarted) == (2, 0, True)


def test_an_abandoned_waiter_leaves_the_line() -> None:
    """Promise: the store is told."""
    bench = asked(run_step("a", of=limited), run_step("b", of=act))
    bench.take(i.Places(bench.later(), ("a",)))
    bench.program.answers = [[c.AbandonStep(key="a")]]
    bench.lands("b")
    bench.said()
    assert "a" in {key for move in bench.all(f.MovePlaces) for key in move.drops}


def test_the_end_of_a_run_frees_everything() -> None:
    """Promise: what it holds and waits for."""
    bench = asked(run_step("a", of=limited), run_step("b", of=limited))
    bench.take(i.Places(bench.later(), ("a", "b"), ("a",)))
    bench.said()
    bench.program.answers = [[DONE]]
    bench.lands("a")
    bench.said()
    assert set(bench.only(f.MovePlaces).drops) == {"a", "b"}


def test_a_step_that_is_taken_up_again_is_recorded_as_begun_and_not_as_waiting() -> None:
    """Promise: whoever finds the run after the next crash counts the attempt that ran."""
    bench = asked(run_step("a", of=limited))
    bench.take(i.Places(bench.later(), ("a",), ("a",)))
    bench.said()
    again = Bench(program=bench.program)
    again.durable = bench.durable
    again.machine.epoch = 2
    again.take(again.opened_again(()))
    again.take(i.Places(again.later(), ("a",), ("a",)))
    assert again.written[:2] == (e.Claimed(worker="worker", restarted=("a",)), e.Limited(begun=("a",)))
    again.said()
    step = again.machine.run.steps["a"]
    assert (step.attempt, step.is_unstarted, again.only(f.Start).attempt) == (2, False, 2)


def test_a_run_without_limits_says_nothing_of_places() -> None:
    """Promise: unlimited steps cost nothing."""
    bench = asked(run_step("a", of=act))
    assert bench.machine._lines is None
    bench.program.answers = [[DONE]]
    bench.lands("a")
    bench.said()
    assert not bench.all(f.MovePlaces)


# -- asking, and what a held run does meanwhile ------------------------------------------------------------------------

SIGNAL = e.SignalReceived(message="m1", name="go")
CHILD = c.StartChild(key="child", run="child", workflow="flow", version="", args=b"{}")
SECOND = timedelta(seconds=1)


def test_places_are_asked_for_although_a_body_runs() -> None:
    """Promise: after every durable turn, and again after a second in case nobody tells."""
    bench = asked(run_step("a", of=limited), run_step("b", of=act))
    assert [ask.step for ask in bench.only(f.MovePlaces).asks] == ["a"]
    assert not bench.all(f.WakeAt)  # the answer comes
    bench.take(i.Places(bench.later(), ("a",)))
    assert bench.only(f.WakeAt) == f.WakeAt(bench.at + SECOND)
    bench.take(i.TimeCame(bench.later()))
    assert [ask.step for ask in bench.only(f.MovePlaces).asks] == ["a"]


def test_the_end_of_a_wait_is_waited_for_if_it_is_sooner_than_the_next_look() -> None:
    bench = asked(run_step("a", of=impatient), run_step("b", of=act))
    until = AT + timedelta(seconds=1 + 10)  # recorded as waiting one second after AT
    bench.at = until - timedelta(seconds=1.5)
    bench.take(i.Places(bench.later(), ("a",)))
    assert bench.only(f.WakeAt) == f.WakeAt(until)


def test_no_places_are_asked_for_during_a_write() -> None:
    bench = asked(run_step("a", of=limited), run_step("b", of=act))
    bench.take(i.Places(bench.later(), ("a",)))
    bench.take(i.Messages(bench.later(), [SIGNAL], 1))
    bench.take(i.News(bench.later()))
    assert bench.effects == []


def test_a_step_that_came_while_the_store_was_asked_asks_next() -> None:
    bench = asked(run_step("a", of=limited))
    bench.program.answers = [[run_step("b", of=limited)]]
    bench.take(i.Messages(bench.later(), [SIGNAL], 1))
    bench.said()
    assert not bench.all(f.MovePlaces)
    bench.take(i.Places(bench.later(), ("a",)))
    assert [ask.step for ask in bench.only(f.MovePlaces).asks] == ["b"]
    assert bench.state is State.IDLE


def at_once(bench: Bench) -> None:
    """The turn is durable, and no time has passed."""
    bench.take(i.Verdict(bench.at, Committed(1, bench.machine.seen)))


def leaving(pausing: bool) -> Bench:
    """A run that waits for the body of b before it is given back or paused; a waits for a place."""
    bench = asked(run_step("a", of=limited), run_step("b", of=act))
    bench.take(i.Places(bench.later(), ("a",)))
    bench.take(i.Messages(bench.later(), [e.Paused(reason="operator")], 1) if pausing else i.Drain(bench.later()))
    return bench


def test_a_run_that_is_about_to_be_given_back_asks_for_nothing() -> None:
    for pausing in (False, True):
        bench = leaving(pausing)
        bench.take(i.News(bench.later()))
        assert not bench.all(f.MovePlaces), pausing


def test_a_step_whose_place_cannot_be_told_fails_and_the_next_turn_says_so() -> None:
    """Promise: the step fails, not the run, and nothing that came before is forgotten."""
    bench = asked(run_step("k", of=keyed))
    assert f.WakeAt(bench.at) in bench.effects
    [failed] = bench.written
    assert isinstance(failed, e.StepFailed)
    assert failed.key == "k"


def test_a_step_whose_place_cannot_be_told_does_not_wait_for_the_body_of_another() -> None:
    bench = asked(run_step("b", of=act))
    bench.program.answers = [[run_step("k", of=keyed)]]
    bench.take(i.Messages(bench.later(), [SIGNAL], 1))
    bench.take(i.Messages(bench.later(), [SIGNAL], 2))
    bench.said()
    assert [type(x) for x in bench.written] == [e.SignalReceived, e.StepFailed]


def test_a_step_whose_place_cannot_be_told_when_others_were_refused_fails_at_once() -> None:
    bench = asked(run_step("a", of=limited))
    bench.program.answers = [[run_step("k", of=keyed)]]
    bench.take(i.Messages(bench.later(), [SIGNAL], 1))
    bench.said()
    bench.take(i.Places(bench.later(), ("a",)))
    assert f.WakeAt(bench.at) in bench.effects


@pytest.mark.parametrize("hint", [i.News, i.TimeCame])
def test_a_step_whose_place_cannot_be_told_fails_with_the_next_hint(hint: type[i.News | i.TimeCame]) -> None:
    """Promise: also where the store had not counted the run as held here."""
    bench = asked(run_step("a", of=limited), run_step("b", of=act))
    bench.take(i.Places(bench.later(), ("a",), is_ours=False))
    bench.program.answers = [[run_step("k", of=keyed)]]
    bench.take(i.Messages(bench.later(), [SIGNAL], 1))
    bench.said()
    bench.take(hint(bench.later()))
    assert f.WakeAt(bench.at) in bench.effects


def test_the_next_attempt_of_a_limited_step_wants_a_place_first() -> None:
    """Promise: its retry is recorded as waiting, the run is held for the answer, and an unlimited one just begins."""
    bench = asked(run_step("a", of=limited), run_step("b", of=act))
    bench.take(i.Places(bench.later(), ("a",), ("a",)))
    bench.said()
    bench.breaks("a")
    at_once(bench)
    bench.take(i.Landed(bench.at, "b", Broke(Failure(type="X", message=""))))
    at_once(bench)
    bench.take(i.TimeCame(max(bench.machine.run.retries.values())))
    assert bench.written == (
        e.AttemptStarted(key="a", attempt=2),
        e.AttemptStarted(key="b", attempt=2),
        e.Limited(waiting={"a": "api"}),
    )
    bench.said()
    assert bench.only(f.Start).command.key == "b"
    assert [ask.step for ask in bench.only(f.MovePlaces).asks] == ["a"]


def test_a_run_is_not_parked_with_the_turn_that_lets_a_limited_step_wait() -> None:
    bench = asked(run_step("a", of=limited))
    bench.take(i.Places(bench.later(), ("a",), ("a",)))
    bench.said()
    bench.breaks("a")
    retry_at = bench.machine.run.retries["a"]
    at_once(bench)
    bench.take(i.TimeCame(retry_at))
    assert bench.only(f.Submit).commit.park is None


def test_a_granted_step_begins_with_a_retry_of_another() -> None:
    bench = asked(run_step("a", of=limited), run_step("b", of=act))
    bench.breaks("b")
    at_once(bench)
    bench.at = bench.machine.run.retries["b"]
    bench.take(i.Places(bench.at, ("a",), ("a",)))
    bench.said()
    assert {x.command.key for x in bench.all(f.Start)} == {"a", "b"}


def quiet(timer: timedelta | None = None) -> Bench:
    """Step a was refused and waits ten seconds at most; b has just landed."""
    bench = asked(run_step("a", of=impatient), run_step("b", of=act))
    bench.take(i.Places(bench.later(), ("a",)))
    bench.program.timer = None if timer is None else bench.at + timer
    bench.lands("b")
    return bench


def test_a_run_whose_steps_wait_in_line_is_parked_until_the_first_has_waited_long_enough() -> None:
    """Promise: or until an earlier time that it waits for."""
    until = AT + timedelta(seconds=1 + 10)  # recorded as waiting one second after AT
    assert quiet().only(f.Submit).commit.park == Park(until)
    assert quiet(timedelta(minutes=1)).only(f.Submit).commit.park == Park(until)
    bench = quiet(timedelta(seconds=4))
    assert bench.only(f.Submit).commit.park == Park(bench.program.timer)


def test_a_run_that_wakes_early_is_given_back_until_the_earliest_time() -> None:
    bench = asked(run_step("a", of=impatient))
    bench.program.timer = bench.at + timedelta(seconds=4)
    bench.take(i.Places(bench.later(), ("a",)))
    assert bench.only(f.Release).until == bench.program.timer


def test_a_run_is_not_parked_while_the_store_is_asked() -> None:
    bench = asked(run_step("a", of=limited), run_step("b", of=act))
    bench.lands("b")
    assert bench.only(f.Submit).commit.park is None


def test_a_run_is_not_parked_that_is_to_ask_again_in_a_moment() -> None:
    bench = asked(run_step("a", of=limited), run_step("b", of=act))
    bench.take(i.Places(bench.later(), ("a",)))
    bench.take(i.News(bench.later()))
    bench.take(i.Places(bench.later(), ("a",), is_ours=False))
    bench.lands("b")
    assert bench.only(f.Submit).commit.park is None
    bench.said()
    assert bench.only(f.WakeAt) == f.WakeAt(bench.at + SECOND)


def test_a_run_with_limits_and_nothing_to_ask_is_parked_with_its_turn() -> None:
    bench = asked(run_step("a", of=limited), run_step("b", of=act))
    bench.take(i.Places(bench.later(), ("a",), ("a",)))
    bench.said()
    bench.lands("b")
    bench.said()
    bench.lands("a")
    assert bench.only(f.Submit).commit.park == Park(None)


def test_a_parent_that_was_refused_again_is_given_back() -> None:
    """Promise: it lingers once for its children, not once for each refusal."""
    bench = Bench([run_step("a", of=limited), CHILD])
    bench.open()
    bench.said()
    bench.take(i.Places(bench.later(), ("a",)))
    assert f.Rest(True) in bench.effects
    bench.take(i.News(bench.later()))
    bench.take(i.Places(bench.later(), ("a",)))
    assert bench.only(f.Release).until is None
