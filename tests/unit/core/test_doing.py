"""What a run is doing now: complete, bounded, and in words people understand."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import events as e
from holdfast.core.doing import (
    LONG,
    SHORT,
    SHOWN,
    Doing,
    Occupation,
    decode_doing,
    describe,
    doing,
    encode_doing,
    one_line,
)
from holdfast.core.failure import Failure
from holdfast.core.projection import Projection, project
from holdfast.core.status import Status
from tests.unit.core.journals import BOOM, NOON, Journal, at, attempt_failed, done, instants, names, started, step


def now_of(journal: Journal) -> list[Occupation]:
    return list(doing(journal.run).now)


def said(*occupations: Occupation, now: datetime = NOON, more: int = 0) -> str:
    return describe(Doing(occupations, more), now)


def sentence(journal: Journal, seconds: float = 0) -> str:
    return describe(doing(journal.run), at(seconds))


# -- as the design wants it --------------------------------------------------------------------------------------------


def test_the_sentences_of_the_design() -> None:
    """Contract: DESIGN §2 and V31: why a run waits and until when, in these words."""
    two_hours, two_days = at(7200), at(2 * 86_400)
    sleeping = Journal().claim(e.SleepStarted(key="nap", until=two_hours))
    waiting = Journal().claim(e.WaitStarted(key="ok", name="approved", until=two_days))
    failing = Journal().claim(step("charge")).turn(attempt_failed("charge", retry=30))
    assert sentence(sleeping) == "sleeping until 14:00 UTC, 2 h left"
    assert sentence(waiting) == "waiting for signal approved, 2 d left"
    assert sentence(failing) == "step charge failed, retrying in 30 s, attempt 2 of 5: no money"


# -- from the fold -----------------------------------------------------------------------------------------------------


def test_a_run_that_has_ended_does_nothing() -> None:
    journal = Journal().claim(step("a"), e.Completed())
    assert doing(journal.run) == Doing()
    assert sentence(journal) == ""


def test_a_pending_run_waits_to_start() -> None:
    assert now_of(Journal(started(available_at=at(60)))) == [Occupation("start", "order", at(60))]
    assert sentence(Journal(started(available_at=at(60)))) == "starts in 1 min"
    assert sentence(Journal()) == "waiting for a worker"


def test_a_paused_run_says_why_and_nothing_else() -> None:
    """Contract: what is open stands still, so it is not said to go on."""
    journal = Journal().claim(step("a")).turn(e.Paused(reason="diverged", detail="row 3\nsays so"))
    assert now_of(journal) == [Occupation("paused", "diverged", detail="row 3 says so")]
    assert sentence(journal) == "paused (diverged): row 3 says so"
    assert now_of(Journal().turn(e.Paused(reason="operator"))) == [Occupation("paused", "operator")]


def test_steps_in_the_order_they_were_asked_for() -> None:
    journal = Journal().claim(step("a"), step("b:1", step="b"), step("c")).turn(e.StepAbandoned(key="a"))
    assert now_of(journal) == [Occupation("step", "b:1", attempt=1), Occupation("step", "c", attempt=1)]
    assert sentence(journal) == "step b:1; step c"


def test_a_retry_says_when_which_and_why() -> None:
    journal = Journal().claim(step("a")).turn(attempt_failed("a", retry=40))
    assert now_of(journal) == [Occupation("retry", "a", at(40), 1, 5, "no money")]
    assert sentence(journal, 10) == "step a failed, retrying in 30 s, attempt 2 of 5: no money"
    assert sentence(journal, 40) == "step a failed, retrying now, attempt 2 of 5: no money"
    journal.turn(e.AttemptStarted(key="a", attempt=2))
    assert sentence(journal) == "step a, attempt 2 of 5"


def test_attempts_that_were_cut_off_do_not_use_up_the_total() -> None:
    """Contract: "attempt 6 of 5" is never said: a crash costs nothing of the budget."""
    journal = Journal().claim(step("a"))
    for _ in range(5):
        journal.claim(worker="w2", restarted=("a",))
    journal.turn(attempt_failed("a", 6, retry=90))
    assert sentence(journal, 60) == "step a failed, retrying in 30 s, attempt 7 of 10: no money"
    journal.turn(e.AttemptStarted(key="a", attempt=7))
    assert sentence(journal) == "step a, attempt 7 of 10"


def test_an_unlimited_retry_has_no_total() -> None:
    journal = Journal().claim(step("a")).turn(attempt_failed("a", of=None))
    assert sentence(journal) == "step a failed, retrying in 30 s, attempt 2: no money"
    assert sentence(journal.turn(e.AttemptStarted(key="a", attempt=2))) == "step a, attempt 2"


def test_a_step_not_begun_waits_for_a_worker() -> None:
    journal = Journal().claim(step("a")).turn(e.Released(worker="w1", unstarted=("a",)))
    assert now_of(journal) == [Occupation("step", "a", attempt=1, detail="waiting for a worker")]
    assert sentence(journal) == "step a, waiting for a worker"
    assert sentence(journal.claim(begun=("a",))) == "step a"


def test_waits_of_every_kind() -> None:
    journal = Journal().claim(
        e.SleepStarted(key="nap", until=at(90)),
        e.WaitStarted(key="w", name="approved"),
        e.WaitStarted(key="t", name="orders", kind="topic", until=at(60)),
        e.ChildStarted(key="ship", run="r/ship", workflow="shipping", until=at(3600)),
        e.ChildStarted(key="free", run="r/free", workflow="shipping", awaited=False),
    )
    assert now_of(journal) == [
        Occupation("sleep", "nap", at(90)),
        Occupation("signal", "approved"),
        Occupation("topic", "orders", at(60)),
        Occupation("child", "shipping", at(3600), detail="r/ship"),
    ]
    assert sentence(journal) == (
        "sleeping until 12:01:30 UTC, 1 min 30 s left; waiting for signal approved; "
        "waiting for topic orders, 1 min left; waiting for child shipping (r/ship), 1 h left"
    )


def test_only_so_many_are_kept() -> None:
    journal = Journal().claim(*[step(f"s{number}") for number in range(SHOWN)])
    assert (len(doing(journal.run).now), doing(journal.run).more) == (SHOWN, 0)
    journal.turn(*[step(f"t{number}") for number in range(3)])
    assert (len(doing(journal.run).now), doing(journal.run).more) == (SHOWN, 3)
    assert sentence(journal) == "step s0; step s1; step s2; step s3; and 3 more"


def test_cleaning_up_comes_first() -> None:
    journal = Journal().claim(step("a"))
    journal.turn(e.CancelRequested(reason="customer left", grace_until=at(300)))
    assert now_of(journal)[0] == Occupation("cancelling", "customer left", at(300))
    assert sentence(journal) == "cleaning up after a cancel (customer left), 5 min left; step a"
    overdue = Journal().claim(step("a"), e.DeadlineReached(grace_until=at(300)))
    assert now_of(overdue)[0] == Occupation("overdue", "", at(300))
    assert sentence(overdue) == "cleaning up after its deadline, 5 min left; step a"
    assert said(Occupation("cancelling", "")) == "cleaning up after a cancel"


def test_a_failed_pass_says_when_the_next_begins() -> None:
    journal = Journal().claim(step("a"), e.SleepStarted(key="nap", until=at(99)))
    journal.turn(e.RetryPlanned(failure=BOOM, at=at(30), of=3))
    assert now_of(journal) == [Occupation("pass", "order", at(30), 2, 3, "no money")]
    assert sentence(journal) == "failed, pass 2 of 3 begins in 30 s: no money"
    assert sentence(journal, 31) == "failed, pass 2 of 3 begins now: no money"
    assert said(Occupation("pass", "order", at(5), 2)) == "failed, pass 2 begins in 5 s"
    journal.claim(e.PassStarted(number=2))
    assert sentence(journal) == "sleeping until 12:01:39 UTC, 1 min 39 s left"


def test_a_run_with_nothing_open_and_no_holder_waits_for_a_worker() -> None:
    """Contract: after a resume or a continue_as nobody asks "is it stuck?"."""
    resumed = Journal().claim().turn(e.Paused(reason="operator")).turn(e.Resumed())
    continued = Journal().claim(e.Continued(workflow="order"))
    for journal in (resumed, continued):
        assert now_of(journal) == [Occupation("start", "order")]
        assert sentence(journal) == "waiting for a worker"
        assert now_of(journal.claim()) == [Occupation("idle", "")]
        assert sentence(journal) == "waiting for a timeout of its own"


def test_long_texts_are_cut() -> None:
    long = Failure("E", "x " * 5000)
    retrying = Journal().claim(step("a")).turn(
        e.AttemptFailed(key="a", attempt=1, failure=long, retry_at=at(9)), e.CancelRequested(reason="y" * 5000)
    )  # fmt: skip
    cancelling, retry = now_of(retrying)
    assert (len(cancelling.name), len(retry.detail)) == (SHORT, SHORT)
    planned = Journal().claim(e.RetryPlanned(failure=long, at=at(9)))
    assert len(now_of(planned)[0].detail) == SHORT
    paused = Journal().turn(e.Paused(reason="operator", detail="z" * 5000))
    assert len(now_of(paused)[0].detail) == LONG
    assert (SHOWN, SHORT, LONG) == (4, 200, 1000)


def test_a_text_on_one_line() -> None:
    assert one_line(" a\n\tb  c ", 10) == "a b c"
    assert one_line("abcde", 5) == "abcde"
    assert one_line("abcdef", 5) == "abcd…"
    assert one_line("", 5) == ""


# -- words -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "text"),
    [
        (timedelta(0), "0 s"), (timedelta(seconds=-5), "0 s"), (timedelta(milliseconds=250), "250 ms"),
        (timedelta(milliseconds=999), "999 ms"), (timedelta(seconds=1), "1 s"),
        (timedelta(seconds=29, microseconds=1), "30 s"), (timedelta(days=2) - timedelta(milliseconds=3), "2 d"),
        (timedelta(minutes=1, seconds=30), "1 min 30 s"), (timedelta(microseconds=1), "1 ms"),
    ],
)  # fmt: skip
def test_what_is_left_is_rounded_up_to_seconds(left: timedelta, text: str) -> None:
    assert said(Occupation("signal", "go", NOON + left)) == f"waiting for signal go, {text} left"


@pytest.mark.parametrize(
    ("until", "text"),
    [
        (at(3600), "13:00 UTC"),
        (at(3605), "13:00:05 UTC"),
        (at(60), "12:01 UTC"),
        (at(86_400), "2026-01-02 12:00 UTC"),
        (at(86_401), "2026-01-02 12:00:01 UTC"),
        (at(-86_400), "2025-12-31 12:00 UTC"),
        (at(3600).astimezone(timezone(timedelta(hours=13))), "13:00 UTC"),
    ],
)
def test_a_time_of_day_is_in_utc_with_its_date_if_that_is_another(until: datetime, text: str) -> None:
    for now in (NOON, NOON.astimezone(timezone(timedelta(hours=13)))):
        assert said(Occupation("sleep", "nap", until), now=now).startswith(f"sleeping until {text}, ")


@pytest.mark.parametrize(
    ("occupation", "text"),
    [
        (Occupation("start", "order", at(5)), "starts in 5 s"),
        (Occupation("start", "order", NOON), "waiting for a worker"),
        (Occupation("start", "order"), "waiting for a worker"),
        (Occupation("retry", "a", None, 1), "step a failed, retrying now, attempt 2"),
        (Occupation("step", "a", attempt=2, of=5), "step a, attempt 2 of 5"),
        (Occupation("sleep", "nap"), "sleeping until woken"),
        (Occupation("child", "ship", detail="r/ship"), "waiting for child ship (r/ship)"),
        (Occupation("child", "ship", at(365 * 86_400), detail="r/ship"), "waiting for child ship (r/ship)"),
        (Occupation("overdue", ""), "cleaning up after its deadline"),
        (Occupation("paused", "operator"), "paused (operator)"),
    ],
)
def test_phrases(occupation: Occupation, text: str) -> None:
    assert said(occupation) == text


# -- stored ------------------------------------------------------------------------------------------------------------

occupations = st.builds(
    Occupation,
    st.sampled_from(["step", "retry", "sleep", "signal", "topic", "child", "start", "pass", "paused", "cancelling"]),
    names,
    st.none() | instants,
    st.integers(0, 100),
    st.none() | st.integers(1, 100),
    st.just("") | names,
)
doings = st.builds(Doing, st.lists(occupations, max_size=4).map(tuple), st.integers(0, 9))


@given(doings, instants)
def test_doing_is_stored_and_always_has_words(value: Doing, now: datetime) -> None:
    if value.now:
        assert decode_doing(encode_doing(value)) == value
        assert describe(value, now)
    else:
        assert encode_doing(value) == b""


def test_nothing_to_say_is_stored_as_nothing() -> None:
    assert encode_doing(Doing()) == b""
    assert decode_doing(b"") == Doing()
    assert (
        encode_doing(Doing((Occupation("step", "a", attempt=1),)))
        == b'{"now":[{"kind":"step","name":"a","attempt":1}]}'
    )


# -- the projection ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("stem.S7")
def test_the_projection_is_what_the_fold_says() -> None:
    """Contract: a run's row always equals the fold of its journal."""
    journal = Journal(started(version="2")).claim(step("a")).turn(done("a"), step("b"))
    expected: dict[str, Any] = {
        "workflow": "order", "version": "2", "status": Status.RUNNING, "doing": encode_doing(doing(journal.run)),
        "started_at": at(1),
    }  # fmt: skip
    assert project(journal.run) == Projection(**expected)
    waiting = Journal().claim(e.WaitStarted(key="ok", name="approved", until=at(60)))
    assert decode_doing(project(waiting.run).doing) == doing(waiting.run) != Doing()
    journal.turn(done("b"), e.Completed())
    expected |= {"status": Status.COMPLETED, "doing": b""}
    assert project(journal.run) == Projection(**expected)


def test_a_child_awaited_later_is_shown_when_nothing_else_is_open() -> None:
    """Contract: a run that only waits for what it started does not look idle."""
    free = e.ChildStarted(key="free", run="r/free", workflow="shipping", awaited=False)
    journal = Journal().claim(free)
    assert sentence(journal) == "waiting for child shipping (r/free)"
    assert sentence(journal.turn(step("a"))) == "step a"
    assert sentence(journal.turn(e.StepAbandoned(key="a"))) == "waiting for child shipping (r/free)"
    assert sentence(journal.turn(e.WaitStarted(key="w", name="go"))) == "waiting for signal go"
