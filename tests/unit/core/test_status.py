"""The life of a run and of an attempt: every event in every status is decided by a table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import events
from holdfast.core.run import Run
from holdfast.core.status import (
    ALIASES,
    ATTEMPT_TRANSITIONS,
    RUN_TRANSITIONS,
    UNCLAIMED,
    Status,
    diagram,
    next_status,
    parse_status,
)
from holdfast.errors import HoldfastError, InvalidInput
from tests.unit.core.journals import EVENTS, Journal, attempt_failed, done, step

TAGS = [str(kind.__struct_config__.tag) for kind in EVENTS]
P, R, S = Status.PENDING, Status.RUNNING, Status.PAUSED
C, F, X = Status.COMPLETED, Status.FAILED, Status.CANCELLED

MOVES = {
    (P, "claimed"): R, (P, "paused"): S, (P, "resumed"): P, (P, "failed"): F, (P, "cancelled"): X,
    (R, "claimed"): R, (R, "paused"): S, (R, "resumed"): R, (R, "continued"): R, (R, "completed"): C,
    (R, "failed"): F, (R, "cancelled"): X,
    (S, "claimed"): S, (S, "paused"): S, (S, "resumed"): R, (S, UNCLAIMED): P, (S, "failed"): F, (S, "cancelled"): X,
}  # fmt: skip
REFUSED = [(P, "completed"), (P, "continued"), (S, "completed"), (P, UNCLAIMED), (R, UNCLAIMED)]


@pytest.mark.parametrize("tag", [*TAGS, UNCLAIMED])
@pytest.mark.parametrize("status", [P, R, S], ids=str)
def test_every_event_in_every_status(status: Status, tag: str) -> None:
    """Contract: an event moves a run as the table says, leaves it where it is, or cannot happen."""
    if (status, tag) in REFUSED:
        with pytest.raises(HoldfastError, match=rf"^a {status.value} run cannot take the event '{tag}'$"):
            next_status(status, tag)
    else:
        assert next_status(status, tag) is MOVES.get((status, tag), status)


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("status", [C, F, X], ids=str)
def test_the_end_is_the_end(status: Status, tag: str) -> None:
    """Contract: terminal is absorbing (O6): no event follows, whatever it is."""
    with pytest.raises(HoldfastError, match=rf"^a {status.value} run takes no further event, got '{tag}'$"):
        next_status(status, tag)


def test_what_is_terminal() -> None:
    assert {status for status in Status if status.is_terminal} == {C, F, X}
    assert set(RUN_TRANSITIONS) == set(Status)


def test_the_words_are_those_of_the_glossary() -> None:
    assert [status.value for status in Status] == ["pending", "running", "paused", "completed", "failed", "cancelled"]


@pytest.mark.parametrize("status", list(Status), ids=str)
def test_a_status_is_found_by_its_word(status: Status) -> None:
    assert parse_status(status.value) is status


def test_words_of_other_systems_are_accepted_as_filters() -> None:
    """Contract: O3: sleeping, succeeded and canceled are understood and never stored."""
    assert {word: parse_status(word) for word in ALIASES} == {"sleeping": R, "succeeded": C, "canceled": X}


@pytest.mark.parametrize("word", ["", "RUNNING", "done", " running"])
def test_an_unknown_status_says_which_there_are(word: str) -> None:
    message = f"^unknown status '{word}'; use one of: pending, running, paused, completed, failed, cancelled$"
    with pytest.raises(InvalidInput, match=message):
        parse_status(word)


# -- the life of a step, as the fold lives it --------------------------------------------------------------------------

MAKERS: dict[str, events.AnyEvent] = {
    "claimed": events.Claimed(worker="w2", restarted=("a",)),
    "done": done("a"),
    "attempt_failed": attempt_failed("a"),
    "attempt": events.AttemptStarted(key="a", attempt=2),
    "step_failed": events.StepFailed(key="a", failure=attempt_failed("a").failure),
    "abandoned": events.StepAbandoned(key="a"),
    "retry": events.RetryPlanned(failure=attempt_failed("a").failure, at=attempt_failed("a").retry_at),
    "step": step("a"),
}
REACHED: dict[str, tuple[events.AnyEvent, ...]] = {
    "scheduled": (step("a"),),
    "waiting": (step("a"), attempt_failed("a")),
    "abandoned": (step("a"), events.StepAbandoned(key="a")),
    "completed": (step("a"), done("a")),
    "failed": (step("a"), MAKERS["step_failed"]),
}


def state_of(run: Run) -> str:
    """The state of step "a"; one that has gone is settled."""
    a = run.steps.get("a")
    if a is None:
        return "gone"
    if a.is_abandoned:
        return "abandoned"
    return "scheduled" if a.retry_at is None else "waiting"


@pytest.mark.parametrize(
    ("state", "tag", "then"),
    [(state, tag, then) for state, edges in ATTEMPT_TRANSITIONS.items() for tag, then in edges.items()],
)
def test_the_fold_lives_the_life_of_a_step_as_the_table_says(state: str, tag: str, then: str) -> None:
    journal = Journal().claim(*REACHED[state])
    assert state_of(journal.run) == state
    journal.turn(MAKERS[tag])
    is_settled = tag in {"done", "step_failed"}
    assert state_of(journal.run) == ("gone" if is_settled else then)


def test_the_table_of_attempts_is_closed() -> None:
    assert {then for edges in ATTEMPT_TRANSITIONS.values() for then in edges.values()} <= set(ATTEMPT_TRANSITIONS)
    assert {tag for edges in ATTEMPT_TRANSITIONS.values() for tag in edges} == set(MAKERS)
    assert [state for state, edges in ATTEMPT_TRANSITIONS.items() if not edges] == ["completed", "failed"]


# -- diagrams ----------------------------------------------------------------------------------------------------------


def test_a_table_is_drawn() -> None:
    table = {"a": {"x": "b", "y": "b", "stay": "a"}, "b": {"back": "a", "end": "c"}, "c": dict[str, str]()}
    assert diagram(table, "a") == (
        "stateDiagram-v2\n    [*] --> a\n    a --> b: x · y\n    b --> a: back\n    b --> c: end\n    c --> [*]\n"
    )


def test_the_diagram_of_a_run_begins_pending() -> None:
    lines = diagram(RUN_TRANSITIONS, Status.PENDING).splitlines()
    assert lines[:3] == ["stateDiagram-v2", "    [*] --> pending", "    pending --> running: claimed"]
    assert "    running --> running: claimed" not in lines
    assert lines[-3:] == ["    completed --> [*]", "    failed --> [*]", "    cancelled --> [*]"]


@given(st.text(max_size=20))
def test_no_other_word_is_a_status(word: str) -> None:
    known = {status.value for status in Status} | set(ALIASES)
    if word in known:
        assert parse_status(word) in Status
    else:
        with pytest.raises(InvalidInput):
            parse_status(word)
