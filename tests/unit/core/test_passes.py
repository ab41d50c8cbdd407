"""Where the running pass begins: everything settled reaches it once, nothing that was given up or taken back."""

from __future__ import annotations

import random
from typing import Any

import pytest

from holdfast.core import events as e
from holdfast.core.passes import Beginning, Memo, last_beginning, last_start, next_beginning, settled_prefix
from holdfast.errors import CorruptJournal
from tests.unit.core.journals import BOOM, LATER, NOON, Journal, at, attempt_failed, done, raw, signal, started, step

AGAIN = e.RetryPlanned(failure=LATER, at=at(99), of=5)


def continued(value: str = "{}") -> e.Continued:
    return e.Continued(workflow="next", version="2", value=raw(value))


def child(key: str = "ship", run: str = "") -> e.ChildStarted:
    return e.ChildStarted(key=key, run=run or f"r/{key}", workflow="shipping")


def bound(key: str) -> e.ChildStarted:
    """A child that is cancelled with its parent."""
    return e.ChildStarted(key=key, run=f"r/{key}", workflow="shipping", on_cancel="cancel")


def child_ended(key: str = "ship", run: str = "", status: Any = "completed") -> e.ChildEnded:
    return e.ChildEnded(key=key, run=run or f"r/{key}", status=status)


def beginning(journal: Journal) -> Beginning:
    return last_beginning("r", journal.turns)[0]


def memo(*events: e.AnyEvent) -> dict[str, Memo]:
    """What a second pass knows of a first one in which this happened."""
    return beginning(Journal().claim(*events).turn(AGAIN)).memo


# -- the first pass ----------------------------------------------------------------------------------------------------


def test_the_first_pass_begins_with_the_start() -> None:
    journal = Journal(started(value=raw("1"))).claim(signal("m"), step("a")).turn(done("a"))
    found, rest = last_beginning("r", journal.turns)
    assert found == Beginning("r", journal.turns[0].events[0], NOON, NOON, 1)  # type: ignore[arg-type]
    assert rest == journal.turns[1:]
    assert (found.number, found.buffered, found.memo, found.patches, found.origin, found.undone) == (
        1, (), {}, set(), 1, set(),
    )  # fmt: skip
    assert found.identity == "r"


@pytest.mark.parametrize("events", [(), (e.Claimed(worker="w"),)], ids=["empty", "claimed"])
def test_a_journal_begins_with_its_start(events: tuple[e.AnyEvent, ...]) -> None:
    journal = Journal()
    journal.turns.clear()
    for turns in ([], journal.turn(*events).turns):
        with pytest.raises(CorruptJournal, match=r"^run r: the journal does not begin with its start$"):
            last_beginning("r", turns)
        with pytest.raises(CorruptJournal, match="does not begin with its start"):
            last_start("r", turns)


# -- continue_as -------------------------------------------------------------------------------------------------------


def test_continue_as_begins_anew_with_other_arguments() -> None:
    journal = Journal().claim(signal("m1"), signal("m2"), step("a"), e.Patched(name="p"))
    journal.turn(done("a"), e.WaitEnded(key="go", message="m1"), continued("5")).claim(step("b"))
    found, rest = last_beginning("r", journal.turns)
    assert found.start is journal.turns[2].events[-1]
    assert (found.at, found.created_at, found.ordinal, found.number, found.origin) == (at(2), NOON, 3, 1, 3)
    assert (found.memo, found.patches, found.undone) == ({}, set(), set())
    assert [x.message for x in found.buffered] == ["m2"]
    assert found.identity == "r#3", "what is derived from a key is another thing in another life"
    assert rest == journal.turns[3:]


def test_signals_are_carried_over_exactly_once() -> None:
    """Contract: over any number of passes a signal is buffered until a wait takes it, and then never again."""
    journal = Journal().claim(signal("m1"), signal("m2"), signal("m3")).turn(continued())
    journal.claim(signal("m4"), e.WaitEnded(key="go", message="m2")).turn(AGAIN)
    assert [x.message for x in beginning(journal).buffered] == ["m1", "m3", "m4"]
    journal.claim(e.WaitEnded(key="go:1", message="m1")).turn(signal("m5"), continued())
    assert [x.message for x in beginning(journal).buffered] == ["m3", "m4", "m5"]
    journal.claim(e.WaitEnded(key="go", message="m3")).turn(continued())
    assert [x.message for x in beginning(journal).buffered] == ["m4", "m5"]


def test_the_last_of_several_beginnings_counts() -> None:
    journal = Journal().claim(AGAIN).claim(AGAIN).claim(continued()).claim(AGAIN).claim(step("a"))
    found, rest = last_beginning("r", journal.turns)
    assert (found.number, found.ordinal, found.origin, found.at) == (2, 5, 4, at(4))
    assert isinstance(found.start, e.Continued)
    assert [turn.ordinal for turn in rest] == [6]


# -- another pass over what is settled ---------------------------------------------------------------------------------


@pytest.mark.spec("openworkflow.O79")
def test_what_is_settled_reaches_the_next_pass() -> None:
    failed = e.StepFailed(key="b", failure=BOOM)
    nap, fired = e.SleepStarted(key="nap", until=at(5)), e.TimerFired(key="nap")
    wait, out = e.WaitStarted(key="w", name="go", until=at(5)), e.TimerFired(key="w")
    topic, news = e.WaitStarted(key="t", name="n", kind="topic"), e.TopicReceived(key="t", message="m9", name="n")
    a, b, a_done, ship, shipped = step("a"), step("b"), done("a"), child(), child_ended()
    message, taken = signal("m1"), e.WaitEnded(key="go", message="m1")
    opened = e.WaitStarted(key="ok", name="go")
    late, ok = signal("m2"), e.WaitEnded(key="ok", message="m2")
    assert memo(
        a, b, nap, wait, topic, ship, message, taken, opened, a_done, failed, fired, out, news, shipped, late, ok
    ) == {
        "a": Memo(a, a_done),
        "b": Memo(b, failed),
        "nap": Memo(nap, fired),
        "w": Memo(wait, out),
        "t": Memo(topic, news),
        "ship": Memo(ship, shipped),
        "go": Memo(None, taken, message),
        "ok": Memo(opened, ok, late),
    }  # fmt: skip


def test_what_is_open_keeps_its_first_end() -> None:
    """Contract: O46: a sleep's end is fixed when it was first met, over passes too; a child is not started twice."""
    nap, ship, a = e.SleepStarted(key="nap", until=at(5)), child(), step("a")
    assert memo(nap, ship, a, attempt_failed("a")) == {"nap": Memo(nap), "ship": Memo(ship), "a": Memo(a)}


def test_three_passes() -> None:
    journal = Journal().claim(step("a"), step("b"), e.Patched(name="p1")).turn(done("a", "1"), AGAIN)
    journal.claim(e.PassStarted(number=2), step("b"), e.Patched(name="p2")).turn(done("b", "2"), AGAIN)
    journal.claim(e.PassStarted(number=3), step("c")).turn(done("c", "3"), AGAIN)
    found, rest = last_beginning("r", journal.turns)
    assert {key: bytes(x.settled.value) for key, x in found.memo.items() if isinstance(x.settled, e.StepCompleted)} == {
        "a": b"1", "b": b"2", "c": b"3",
    }  # fmt: skip
    assert (found.number, found.patches, found.ordinal, found.origin, list(rest)) == (4, {"p1", "p2"}, 7, 1, [])
    assert found.start is journal.turns[0].events[0]


def test_outcomes_of_the_turn_that_ends_a_pass_count() -> None:
    journal = Journal().claim(step("a")).turn(done("a"), AGAIN)
    assert beginning(journal).memo["a"].settled is not None


def test_a_step_the_author_gave_up_counts_only_if_it_completed() -> None:
    """Contract: a time-out around a step is not the step's failure: the next pass asks for it again."""
    a, gone, finished = step("a"), e.StepAbandoned(key="a"), done("a")
    failed = e.StepFailed(key="a", failure=BOOM)
    assert memo(a, gone) == {"a": Memo(a)}
    assert memo(a, gone, failed) == {"a": Memo(a)}
    assert memo(a, gone, finished) == {"a": Memo(a, finished)}
    journal = Journal().claim(a).turn(gone, AGAIN).claim(a).turn(failed, AGAIN)
    assert beginning(journal).memo == {"a": Memo(a, failed)}, "asked for again, it may fail for good"


@pytest.mark.parametrize(
    "opened",
    [e.WaitStarted(key="w", name="go"), e.SleepStarted(key="w", until=at(9))],
    ids=["wait", "sleep"],
)
def test_a_wait_the_author_gave_up_begins_anew(opened: e.AnyEvent) -> None:
    assert memo(opened, e.WaitEnded(key="w")) == {}
    journal = Journal().claim(opened).turn(AGAIN).claim(e.WaitEnded(key="w")).turn(AGAIN)
    assert beginning(journal).memo == {}, "also when an earlier pass had opened it"


def test_a_child_outlives_the_wait_for_it() -> None:
    ship, shipped = child(), child_ended()
    assert memo(ship, e.TimerFired(key="ship")) == {"ship": Memo(ship)}
    assert memo(ship, e.WaitEnded(key="ship")) == {"ship": Memo(ship)}
    assert memo(ship, e.TimerFired(key="ship"), shipped) == {"ship": Memo(ship, shipped)}
    assert memo(ship, child_ended(run="r#3/ship")) == {"ship": Memo(ship)}, "the end of another child"
    assert memo(step("ship"), shipped) == {"ship": Memo(step("ship"))}


def test_what_was_never_asked_for_settles_nothing() -> None:
    stray = (done("a"), e.StepFailed(key="b", failure=BOOM), e.TimerFired(key="timeout"), child_ended("c"))
    assert memo(*stray, e.TopicReceived(key="t", message="m", name="n"), e.WaitEnded(key="w")) == {}
    nap = e.SleepStarted(key="a", until=at(9))
    assert memo(nap, done("a")) == {"a": Memo(nap)}


def test_a_deed_that_was_undone_is_not_settled_and_its_key_is_spent() -> None:
    """Contract: after a saga took a step back, the next pass does it anew, and asks the outside under another key."""
    journal = Journal().claim(step("charge", undo=True), step("log")).turn(done("charge"), done("log"))
    journal.turn(step("refund", undoes="charge")).turn(done("refund"), AGAIN)
    found = beginning(journal)
    assert list(found.memo) == ["log"]
    assert found.undone == {"charge", "refund"}
    journal.claim(step("charge^2", undo=True)).turn(done("charge^2"), AGAIN)
    found = beginning(journal)
    assert list(found.memo) == ["log", "charge^2"]
    assert found.undone == {"charge", "refund"}
    journal.claim(continued())
    assert beginning(journal).undone == set()


def test_an_undo_that_failed_is_tried_again_and_its_deed_still_counts() -> None:
    journal = Journal().claim(step("charge", undo=True)).turn(done("charge"), step("refund", undoes="charge"))
    journal.turn(e.StepFailed(key="refund", failure=BOOM), AGAIN)
    found = beginning(journal)
    assert list(found.memo) == ["charge"]
    assert found.undone == {"refund"}


def test_the_undo_of_an_unknown_deed_is_no_trouble() -> None:
    found = beginning(Journal().claim(step("refund", undoes="x")).turn(done("refund"), AGAIN))
    assert (found.memo, found.undone) == ({}, {"x", "refund"})


# -- a retry of a whole run --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_the_fold_knows_the_next_beginning_as_the_journal_does(seed: int) -> None:
    """Contract: after `continue_as` a life that begins from memory begins as one that is read from the journal, and
    every pass of it knows the same children of earlier lives, also where a life asks for one of those again."""
    chance = random.Random(seed)
    journal = Journal(started(value=raw("1")))
    for number in range(chance.randint(1, 4)):
        asked: list[e.AnyEvent] = [signal(f"{number}.{each}") for each in range(chance.randint(0, 3))]
        taken = [e.WaitEnded(key=f"w{x.message}", message=x.message) for x in asked if isinstance(x, e.SignalReceived)]
        keys = [str(each) for each in chance.sample(range(6), chance.randint(0, 5))]
        asked += [chance.choice((step(f"s{key}"), child(key), bound(key))) for key in keys]
        journal.claim(*asked)
        ended = [child_ended(str(each)) for each in chance.sample(range(6), chance.randint(0, 2))]
        journal.turn(*chance.sample(taken, chance.randint(0, len(taken))), *ended)
        if chance.random() < 0.5:
            journal.turn(AGAIN)
            assert beginning(journal).left == tuple(journal.run.left), f"seed {seed}"
        journal.turn(start := continued(str(number)))
        assert next_beginning(journal.run, start) == beginning(journal), f"seed {seed}"


def test_an_adopted_fact_is_settled_from_the_first_pass_on() -> None:
    a, a_done, taken, message = step("a"), done("a"), e.WaitEnded(key="go", message="m1"), signal("m1")
    facts = (a, a_done, message, taken, signal("m2"))
    journal = Journal(started(), e.Adopted(facts=facts)).claim(step("b"))
    found, rest = last_beginning("r", journal.turns)
    assert found.memo == {"a": Memo(a, a_done), "go": Memo(None, taken, message)}
    assert [x.message for x in found.buffered] == ["m2"]
    assert [turn.ordinal for turn in rest] == [2]
    again = beginning(journal.turn(done("b"), AGAIN))
    assert list(again.memo) == ["a", "go", "b"]
    assert [x.message for x in again.buffered] == ["m2"]
    anew = beginning(journal.claim(continued()))
    assert anew.memo == {}
    assert [x.message for x in anew.buffered] == ["m2"]


def test_a_retry_takes_over_what_succeeded() -> None:
    nap, fired = e.SleepStarted(key="nap", until=at(5)), e.TimerFired(key="nap")
    topic, news = e.WaitStarted(key="t", name="n", kind="topic"), e.TopicReceived(key="t", message="m9", name="n")
    a, a_done, ship, shipped = step("a"), done("a"), child(), child_ended()
    message, taken, left = signal("m1"), e.WaitEnded(key="go", message="m1"), signal("m2")
    journal = Journal().claim(a, nap, topic, ship, message, taken, left, step("open"))
    journal.turn(a_done, fired, news, shipped).turn(AGAIN).claim(e.Failed(failure=BOOM))
    assert settled_prefix(journal.turns) == (
        a, a_done, nap, fired, topic, news, ship, shipped, message, taken, left,
    )  # fmt: skip


@pytest.mark.parametrize(
    "events",
    [
        (step("a"), e.StepFailed(key="a", failure=BOOM)),
        (step("a"), attempt_failed("a")),
        (child("a"), child_ended("a", status="failed")),
        (child("a"), child_ended("a", status="cancelled")),
        (child("a"), e.TimerFired(key="a")),
        (e.WaitStarted(key="a", name="go"), e.TimerFired(key="a")),
        (e.WaitStarted(key="a", name="go"), e.WaitEnded(key="a")),
        (e.SleepStarted(key="a", until=at(9)), e.WaitEnded(key="a")),
        (e.SleepStarted(key="a", until=at(9)),),
        (step("a", undo=True), done("a"), step("b", undoes="a"), done("b")),
        (e.Exposed(name="a"), e.Patched(name="p"), e.Kept(keys=("a",))),
    ],
    ids=["failed", "retrying", "child failed", "child cancelled", "child late", "timed out", "given up", "woken",
         "asleep", "undone", "others"],
)  # fmt: skip
def test_a_retry_does_the_rest_again(events: tuple[e.AnyEvent, ...]) -> None:
    assert settled_prefix(Journal().claim(*events).turns) == ()


def test_a_late_child_counts() -> None:
    ship, shipped = child(), child_ended()
    assert settled_prefix(Journal().claim(ship).turn(e.TimerFired(key="ship")).turn(shipped).turns) == (ship, shipped)


def test_a_retry_goes_on_from_the_last_continue_as() -> None:
    """Contract: the arguments and the facts are those of the same life."""
    first = started(value=raw("1"), blob="x", queue="slow")
    journal = Journal(first).claim(step("a"), signal("m")).turn(done("a"), continued("2")).claim(step("b"))
    journal.turn(done("b"), e.Failed(failure=BOOM))
    assert settled_prefix(journal.turns) == (step("b"), journal.turns[4].events[0], signal_of(journal))
    again = last_start("r", journal.turns)
    assert (again.workflow, again.version, bytes(again.value), again.blob, again.queue) == (
        "next",
        "2",
        b"2",
        "",
        "slow",
    )
    assert last_start("r", journal.turns[:2]) is first


def signal_of(journal: Journal) -> e.AnyEvent:
    return next(x for turn in journal.turns for x in turn.events if isinstance(x, e.SignalReceived))


def test_a_retry_of_a_retry_takes_over_both() -> None:
    a, a_done, b, b_done, message = step("a"), done("a"), step("b"), done("b"), signal("m")
    journal = Journal(started(), e.Adopted(facts=(a, a_done, message))).claim(b).turn(b_done, e.Failed(failure=BOOM))
    assert settled_prefix(journal.turns) == (a, a_done, b, b_done, message)
