"""How a run got here: one entry for each attempt, wait, child and thing that happened; bounded, and in words."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given

from holdfast.core import events as e
from holdfast.core.entry import LENGTH, Entry, Kind, error_text, list_text, rest_text, say
from holdfast.core.failure import Failure
from holdfast.core.timeline import MOST, Timeline, timeline
from tests.support.examples import examples
from tests.unit.core.journals import (
    BOOM,
    NOON,
    Journal,
    at,
    attempt_failed,
    done,
    raw,
    seconds,
    signal,
    started,
    step,
)
from tests.unit.core.random_journals import journals


def child(key: str = "ship", **more: Any) -> e.ChildStarted:
    return e.ChildStarted(key=key, run=f"r/{key}", workflow="shipping", **more)


def child_ended(key: str = "ship", run: str = "", status: Any = "completed", **more: Any) -> e.ChildEnded:
    return e.ChildEnded(key=key, run=run or f"r/{key}", status=status, **more)


class Expected:
    """The list of entries a test expects: begun by the worker `w1` in epoch 1, unless said otherwise."""

    def __init__(self) -> None:
        self.entries = [
            Entry(number=1, ordinal=1, at=NOON, kind="started", name="order"),
            Entry(number=2, ordinal=2, at=at(1), kind="claimed", name="w1", worker="w1", epoch=1),
        ]

    def add(self, ordinal: int, kind: Kind, name: str = "", **more: Any) -> Expected:
        fields: dict[str, Any] = {"worker": "w1", "epoch": 1, "at": at(ordinal - 1), **more}
        self.entries.append(Entry(number=len(self.entries) + 1, ordinal=ordinal, kind=kind, name=name, **fields))
        return self


# -- steps -------------------------------------------------------------------------------------------------------------


def test_one_entry_for_each_attempt() -> None:
    """Contract: scheduled, ended, how, by whom; the failed one says when the next comes."""
    journal = Journal().claim(step("charge:1", step="charge")).turn(attempt_failed("charge:1", 1, retry=3))
    journal.turn(e.AttemptStarted(key="charge:1", attempt=2), when=3).turn(done("charge:1"), when=8)
    expected = Expected()
    expected.add(2, "step", "charge", key="charge:1", attempt=1, outcome="failed", ended_at=at(2), of=5, until=at(3),
                 error="shop.Declined: no money")  # fmt: skip
    expected.add(4, "step", "charge", key="charge:1", attempt=2, of=5, outcome="completed", ended_at=at(8))
    assert timeline(journal.turns) == expected.entries
    assert [x.duration for x in expected.entries[2:]] == [seconds(1), seconds(5)]


def test_a_step_that_failed_for_good() -> None:
    journal = Journal().claim(step("a")).turn(e.StepFailed(key="a", failure=BOOM))
    expected = Expected().add(2, "step", "a", key="a", attempt=1, outcome="failed", ended_at=at(2),
                              error="shop.Declined: no money")  # fmt: skip
    assert timeline(journal.turns) == expected.entries


def test_a_step_that_failed_for_good_while_it_waited() -> None:
    journal = Journal().claim(step("a")).turn(attempt_failed("a")).turn(e.StepFailed(key="a", failure=BOOM))
    [entry] = [x for x in timeline(journal.turns) if x.kind == "step"]
    assert (entry.outcome, entry.ended_at, entry.detail) == ("failed", at(2), "")


def test_an_attempt_that_goes_on_is_open() -> None:
    entry = timeline(Journal().claim(step("a")).turns)[-1]
    assert (entry.outcome, entry.ended_at, entry.duration, entry.goes_on) == ("open", None, None, True)


def test_an_attempt_cut_off_by_a_crash_and_the_one_after_it() -> None:
    """Contract: who had it, who took over; how long the first ran nobody can know."""
    journal = Journal().claim(step("a", undoes="x")).claim(worker="w2", restarted=("a", "stray")).turn(done("a"))
    expected = Expected()
    expected.add(2, "step", "a", key="a", attempt=1, outcome="cut off", detail="undoes x")
    expected.add(3, "taken over", "w2", worker="w2", epoch=2)
    expected.add(3, "step", "a", key="a", attempt=2, worker="w2", epoch=2, outcome="completed", ended_at=at(3),
                 detail="undoes x")  # fmt: skip
    assert timeline(journal.turns) == expected.entries


def test_attempts_that_were_cut_off_are_added_to_those_that_may_follow() -> None:
    """Promise: no entry says "attempt 4 of 3": a crash costs nothing of the budget."""
    journal = Journal().claim(step("a"))
    journal.claim(worker="w2", restarted=("a",)).claim(worker="w3", restarted=("a",))
    journal.turn(attempt_failed("a", 3, retry=3, of=3)).turn(e.AttemptStarted(key="a", attempt=4))
    journal.claim(worker="w4", restarted=("a",))
    steps = [(x.attempt, x.of) for x in timeline(journal.turns) if x.kind == "step"]
    assert steps == [(1, None), (2, None), (3, 5), (4, 5), (5, 6)]


def test_a_step_released_before_it_began_begins_with_the_next_claim() -> None:
    line = Timeline()
    journal = Journal().claim(e.Released(worker="w1", unstarted=("a", "x")), step("a"))
    for turn in journal.turns:
        line.take(turn)
    assert [(x.kind, x.outcome, x.goes_on) for x in line.entries[2:]] == [
        ("step", "not begun", True),
        ("released", "", False),
    ]
    changed = line.take(journal.claim(worker="w2", begun=("a", "x")).turns[-1])
    expected = Expected()
    expected.add(2, "step", "a", key="a", attempt=1, outcome="open", at=at(2), worker="w2", epoch=2)
    expected.add(2, "released", "w1")
    expected.add(3, "claimed", "w2", worker="w2", epoch=2)
    assert line.entries == expected.entries
    assert changed == [expected.entries[4], expected.entries[2]]


def test_a_release_does_not_touch_what_has_ended() -> None:
    journal = Journal().claim(step("a")).turn(attempt_failed("a"), e.Released(worker="w1", unstarted=("a",)))
    assert [x.outcome for x in timeline(journal.turns) if x.kind == "step"] == ["failed"]
    assert timeline(journal.turn(e.Patched(name="p")).turns)[-1].worker == ""


@pytest.mark.parametrize(
    ("late", "outcome", "error"),
    [
        (done("a"), "completed later", ""),
        (e.StepFailed(key="a", failure=BOOM), "failed later", "shop.Declined: no money"),
    ],
    ids=["completed", "failed"],
)
def test_a_step_the_author_gave_up(late: e.AnyEvent, outcome: str, error: str) -> None:
    journal = Journal().claim(step("a")).turn(e.StepAbandoned(key="a"))
    entry = timeline(journal.turns)[-1]
    assert (entry.outcome, entry.ended_at, entry.goes_on) == ("abandoned", at(2), False)
    entry = timeline(journal.turn(late).turns)[-1]
    assert (entry.outcome, entry.ended_at, entry.detail, entry.error) == ("abandoned", at(2), outcome, error)


def test_a_step_given_up_between_two_attempts_stays_failed() -> None:
    journal = Journal().claim(step("a")).turn(attempt_failed("a")).turn(e.StepAbandoned(key="a"))
    assert [x.outcome for x in timeline(journal.turns) if x.kind == "step"] == ["failed"]


def test_outcomes_nobody_asked_for_are_no_entries() -> None:
    stray = (done("x"), e.StepFailed(key="x", failure=BOOM), attempt_failed("x"), e.StepAbandoned(key="x"),
             e.TimerFired(key="timeout"), e.TopicReceived(key="x", message="m", name="n"), child_ended("x"),
             e.WaitEnded(key="x"))  # fmt: skip
    assert timeline(Journal().claim(*stray).turns) == Expected().entries


def test_an_attempt_nobody_scheduled_is_shown_all_the_same() -> None:
    expected = Expected().add(2, "step", "x", key="x", attempt=2, outcome="open")
    assert timeline(Journal().claim(e.AttemptStarted(key="x", attempt=2)).turns) == expected.entries


# -- waits -------------------------------------------------------------------------------------------------------------


def test_sleeps_and_waits_and_what_ended_them() -> None:
    journal = Journal().claim(
        e.SleepStarted(key="nap", until=at(60)),
        e.SleepStarted(key="short", until=at(9)),
        e.WaitStarted(key="ok", name="approved", until=at(90)),
        e.WaitStarted(key="late", name="approved"),
        e.WaitStarted(key="never", name="approved"),
        e.WaitStarted(key="paid", name="orders", kind="topic"),
    )
    journal.turn(e.TimerFired(key="nap"), e.WaitEnded(key="short"))
    journal.turn(signal("m1", "approved"), e.WaitEnded(key="ok", message="m1"))
    journal.turn(e.TimerFired(key="late"), e.TopicReceived(key="paid", message="m2", name="orders"))
    expected = Expected()
    expected.add(2, "sleep", "nap", key="nap", until=at(60), outcome="woke", ended_at=at(2))
    expected.add(2, "sleep", "short", key="short", until=at(9), outcome="abandoned", ended_at=at(2))
    expected.add(2, "signal", "approved", key="ok", until=at(90), outcome="received", ended_at=at(3))
    expected.add(2, "signal", "approved", key="late", outcome="timed out", ended_at=at(4))
    expected.add(2, "signal", "approved", key="never", outcome="open")
    expected.add(2, "topic", "orders", key="paid", outcome="received", ended_at=at(4))
    expected.add(4, "received", "approved")
    assert timeline(journal.turns) == expected.entries


def test_a_signal_that_was_there_before_the_wait() -> None:
    sent = e.SignalReceived(message="m1", name="approved", sender="boss")
    journal = Journal().claim(sent).turn(e.WaitEnded(key="ok", message="m1"))
    expected = Expected().add(2, "received", "approved", run="boss")
    expected.add(3, "signal", "approved", key="ok", outcome="received", ended_at=at(2))
    assert timeline(journal.turns) == expected.entries


def test_a_child_and_its_end() -> None:
    journal = Journal().claim(child(until=at(60)), child("bad")).turn(child_ended(run="r#9/ship"))
    journal.turn(child_ended(), child_ended("bad", status="failed", failure=BOOM))
    expected = Expected()
    expected.add(2, "child", "shipping", key="ship", run="r/ship", until=at(60), outcome="completed", ended_at=at(3))
    expected.add(2, "child", "shipping", key="bad", run="r/bad", outcome="failed", ended_at=at(3),
                 error="shop.Declined: no money")  # fmt: skip
    assert timeline(journal.turns) == expected.entries


@pytest.mark.parametrize(
    ("ending", "outcome"), [(e.TimerFired(key="ship"), "timed out"), (e.WaitEnded(key="ship"), "abandoned")]
)
def test_a_child_that_outlived_the_wait_for_it(ending: e.AnyEvent, outcome: str) -> None:
    journal = Journal().claim(child()).turn(ending)
    entry = timeline(journal.turns)[-1]
    assert (entry.outcome, entry.ended_at, entry.detail) == (outcome, at(2), "")
    entry = timeline(journal.turn(child_ended(status="cancelled")).turns)[-1]
    assert (entry.outcome, entry.ended_at, entry.detail) == (outcome, at(2), "cancelled later")


# -- the run as a whole ------------------------------------------------------------------------------------------------


def test_what_happens_to_the_run_as_a_whole() -> None:
    journal = Journal(started(parent="p", available_at=at(5), retried_from="old"))
    journal.claim(
        e.MessageSent(key="s", to="other", kind="signal", name="go"),
        e.Exposed(name="progress", value=raw('"half"')),
        e.Exposed(name="big", blob="abc"),
        e.Patched(name="p1"),
        e.Kept(keys=("a", "b")),
    )
    journal.turn(e.CancelRequested(reason="customer\nleft", actor="me", grace_until=at(300)))
    journal.turn(e.DeadlineReached(grace_until=at(400)))
    expected = Expected()
    expected.entries[0] = Entry(
        number=1, ordinal=1, at=NOON, kind="started", name="order", run="p", until=at(5), detail="retry of old"
    )
    expected.add(2, "sent", "go", key="s", run="other", detail="signal")
    expected.add(2, "exposed", "progress", detail='"half"')
    expected.add(2, "exposed", "big", detail="blob abc")
    expected.add(2, "patched", "p1")
    expected.add(2, "kept", detail="a, b")
    expected.add(3, "cancel", actor="me", detail="customer left", until=at(300))
    expected.add(4, "deadline", until=at(400))
    assert timeline(journal.turns) == expected.entries


def test_adopted_facts_are_one_entry() -> None:
    facts = (step("a"), done("a"), step("b"), done("b"), signal("m1", "go"), signal("m2", "no"),
             e.WaitEnded(key="w", message="m2"))  # fmt: skip
    journal = Journal(started(), e.Adopted(facts=facts)).claim(
        e.WaitEnded(key="go", message="m1"), e.WaitEnded(key="x", message="m2")
    )
    kinds = [(x.kind, x.name, x.detail) for x in timeline(journal.turns)]
    assert kinds == [
        ("started", "order", ""), ("adopted", "", "a, b"), ("claimed", "w1", ""), ("signal", "go", ""),
        ("signal", "", ""),
    ]  # fmt: skip


def test_pauses() -> None:
    journal = Journal().claim().turn(e.Paused(reason="operator", detail="a\nb", actor="me"))
    journal.turn(e.Paused(reason="diverged")).turn(e.Resumed(actor="you")).turn(e.Resumed(actor="she"))
    expected = Expected()
    expected.add(3, "paused", "operator", actor="me", detail="a b", outcome="over", ended_at=at(3))
    expected.add(4, "paused", "diverged", outcome="over", ended_at=at(4))
    expected.add(5, "resumed", actor="you")
    expected.add(6, "resumed", actor="she")
    assert timeline(journal.turns) == expected.entries


def test_a_pause_ends_with_the_run() -> None:
    journal = Journal().claim().turn(e.Paused(reason="operator")).turn(e.Cancelled(reason="no", actor="me"))
    expected = Expected().add(3, "paused", "operator", outcome="over", ended_at=at(3))
    expected.add(4, "ended", outcome="cancelled", actor="me", error="no")
    assert timeline(journal.turns) == expected.entries


def test_another_pass_goes_on_counting_attempts() -> None:
    planned = e.RetryPlanned(failure=BOOM, at=at(30), of=3)
    journal = Journal().claim(step("a"), e.SleepStarted(key="nap", until=at(9))).turn(planned)
    journal.claim(e.PassStarted(number=2), step("a"), worker="w2")
    expected = Expected()
    expected.add(2, "step", "a", key="a", attempt=1, outcome="left")
    expected.add(2, "sleep", "nap", key="nap", until=at(9), outcome="open")
    expected.add(3, "retry", until=at(30), of=3, error="shop.Declined: no money")
    expected.add(4, "claimed", "w2", worker="w2", epoch=2)
    expected.add(4, "pass", attempt=2, worker="w2", epoch=2)
    expected.add(4, "step", "a", key="a", attempt=2, outcome="open", worker="w2", epoch=2)
    assert timeline(journal.turns) == expected.entries


def test_the_total_and_the_name_go_on_too() -> None:
    journal = (
        Journal().claim(step("a:1", step="a")).turn(attempt_failed("a:1")).turn(e.RetryPlanned(failure=BOOM, at=at(9)))
    )
    entry = timeline(journal.claim(step("a:1", step="b", undoes="c")).turns)[-1]
    assert (entry.name, entry.attempt, entry.of, entry.detail) == ("b", 2, 5, "undoes c")


def test_continue_as_leaves_everything_behind() -> None:
    journal = Journal().claim(step("a"), child(), signal("m1", "go")).turn(e.Continued(workflow="next"))
    journal.claim(step("a"), child_ended(), e.WaitEnded(key="go", message="m1"))
    expected = Expected()
    expected.add(2, "step", "a", key="a", attempt=1, outcome="left")
    expected.add(2, "child", "shipping", key="ship", run="r/ship", outcome="left")
    expected.add(2, "received", "go")
    expected.add(3, "continued", "next")
    expected.add(4, "claimed", "w1", epoch=2)
    expected.add(4, "step", "a", key="a", attempt=1, outcome="open", epoch=2)
    expected.add(4, "signal", "go", key="go", outcome="received", ended_at=at(3), epoch=2)
    assert timeline(journal.turns) == expected.entries


@pytest.mark.parametrize(
    ("end", "more"),
    [
        (e.Completed(left=("a", "b")), {"outcome": "completed", "detail": "left running: a, b"}),
        (
            e.Failed(failure=BOOM, left=("a",), undone=("c", "d")),
            {
                "outcome": "failed",
                "error": "shop.Declined: no money",
                "detail": "left running: a; not undone: c, d",
            },
        ),
        (
            e.Cancelled(reason="so\nit is", actor="me", left=("x",), undone=("c",)),
            {"outcome": "cancelled", "error": "so it is", "actor": "me", "detail": "left running: x; not undone: c"},
        ),
    ],
    ids=["completed", "failed", "cancelled"],
)
def test_the_end_and_what_it_leaves(end: e.AnyEvent, more: dict[str, Any]) -> None:
    journal = Journal().claim(step("a"), e.SleepStarted(key="nap", until=at(9))).turn(end)
    expected = Expected().add(2, "step", "a", key="a", attempt=1, outcome="left")
    expected.add(2, "sleep", "nap", key="nap", until=at(9), outcome="left").add(3, "ended", **more)
    assert timeline(journal.turns) == expected.entries


# -- bounded -----------------------------------------------------------------------------------------------------------


def test_what_ended_longest_ago_goes_first() -> None:
    line = Timeline(3)
    journal = Journal().claim(step("long"), step("a")).turn(done("a"), step("b")).turn(done("b"), step("c"))
    for turn in journal.turns:
        line.take(turn)
    assert [(x.number, x.key, x.outcome) for x in line.entries] == [
        (3, "long", "open"),
        (5, "b", "completed"),
        (6, "c", "open"),
    ]
    assert line.omitted == 3


def test_when_all_go_on_the_oldest_goes() -> None:
    line = Timeline(2)
    journal = Journal().claim(step("a"), step("b"), step("c")).turn(done("a"), done("c"), step("d"))
    changed = [line.take(turn) for turn in journal.turns]
    assert [(x.key, x.outcome) for x in line.entries] == [("b", "open"), ("d", "open")]
    assert line.omitted == 4
    assert [(x.key, x.outcome) for x in changed[-1]] == [("a", "completed"), ("c", "completed"), ("d", "open")]


def test_a_thousand_are_kept() -> None:
    journal = Journal()
    for number in range(MOST + 10):
        journal.turn(e.Patched(name=f"p{number}"))
    entries = timeline(journal.turns)
    assert (len(entries), MOST) == (1000, 1000)
    assert [x.number for x in entries] == list(range(12, MOST + 12))
    assert [x.number for x in timeline(journal.turns, most=2)] == [MOST + 10, MOST + 11]


def test_exactly_as_many_as_are_kept() -> None:
    line = Timeline(2)
    for turn in Journal().claim().turns:
        line.take(turn)
    assert (len(line.entries), line.omitted) == (2, 0)


def test_texts_are_cut() -> None:
    long = "x" * 2000
    journal = Journal().claim(
        e.Exposed(name="v", value=raw(f'"{long}"')), e.Kept(keys=(long,)), e.CancelRequested(reason=long)
    )
    journal.turn(e.Paused(reason="operator", detail=long)).turn(e.Resumed())
    journal.turn(e.Cancelled(reason=long))
    details = [max(len(x.detail), len(x.error)) for x in timeline(journal.turns)]
    assert (max(details), LENGTH) == (500, 500)
    assert len(error_text(Failure("T", long))) == LENGTH
    assert error_text(Failure("T", "m\nn")) == "T: m n"
    assert list_text(["a", "b"]) == "a, b"
    assert rest_text((), ()) == ""
    assert rest_text((), ("a",)) == "not undone: a"


def test_bytes_that_are_no_text_are_shown_all_the_same() -> None:
    entry = timeline(Journal().claim(e.Exposed(name="v", value=msgspec.Raw(b'"\xff"'))).turns)[-1]
    assert entry.detail == '"�"'


@examples(1000)
@given(journals())
def test_any_journal_has_a_timeline(journal: Journal) -> None:
    """Contract: pure and total: the same rows give the same entries, in order, each with its words."""
    entries = timeline(journal.turns)
    assert timeline(journal.turns) == entries
    assert [x.number for x in entries] == sorted({x.number for x in entries})
    assert all(say(x) and "\n" not in say(x) for x in entries)
    assert all(x.duration is None or x.duration >= seconds(0) for x in entries)
    line = Timeline()
    changed: dict[int, Entry] = {}
    for turn in journal.turns:
        changed |= {x.number: x for x in line.take(turn)}
    assert [changed[number] for number in sorted(changed)] == entries
    run = journal.run
    going_on = {x.key for x in entries if x.kind == "step" and x.goes_on}
    if run.end is None:
        assert {s.key for s in run.in_flight} <= going_on
    else:
        assert not any(x.goes_on for x in entries)


# -- words -------------------------------------------------------------------------------------------------------------


def entry(kind: Kind, name: str = "", **more: Any) -> Entry:
    return Entry(number=1, ordinal=1, at=NOON, kind=kind, name=name, **more)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            entry("step", "charge", key="charge:1", attempt=2, of=5, outcome="failed", ended_at=at(3), error="E: m"),
            "step charge:1, attempt 2 of 5: failed after 3 s: E: m",
        ),
        (entry("step", "a", key="a", attempt=1, of=5, outcome="completed", ended_at=NOON), "step a: completed"),
        (
            entry("step", "a", key="a", attempt=2, outcome="open", detail="undoes b"),
            "step a, attempt 2: open: undoes b",
        ),
        (entry("step", "a", key="a", attempt=1, outcome="cut off"), "step a: cut off"),
        (entry("sleep", "nap", outcome="woke", ended_at=at(60)), "sleep nap: woke after 1 min"),
        (entry("signal", "go", outcome="received", ended_at=at(1)), "wait for signal go: received after 1 s"),
        (entry("topic", "news", outcome="open"), "wait for topic news: open"),
        (entry("child", "ship", run="r/ship", outcome="left"), "child ship (r/ship): left"),
        (entry("received", "go"), "signal go received"),
        (entry("received", "go", run="boss"), "signal go received from boss"),
        (entry("sent", "go", run="other", detail="signal"), "signal go sent to other"),
        (entry("claimed", "w1"), "claimed by w1"),
        (entry("taken over", "w2"), "taken over by w2"),
        (entry("released", "w1"), "released by w1"),
        (entry("cancel", actor="me", detail="left"), "cancel asked for: left (by me)"),
        (entry("deadline"), "deadline passed"),
        (entry("retry", error="E: m"), "the body failed and will be retried: E: m"),
        (entry("pass", attempt=2), "pass 2 began"),
        (entry("kept", detail="a, b"), "saga kept: a, b"),
        (entry("started", "order", detail="retry of old"), "started order: retry of old"),
        (entry("continued", "next"), "continued next"),
        (
            entry("paused", "operator", outcome="open", detail="lunch", actor="me"),
            "paused (operator): lunch (by me)",
        ),
        (entry("resumed"), "resumed"),
        (
            entry("ended", outcome="failed", detail="left running: a", error="E: m"),
            "ended: failed: left running: a: E: m",
        ),
    ],
)  # fmt: skip
def test_an_entry_in_words(given: Entry, text: str) -> None:
    assert say(given) == text
