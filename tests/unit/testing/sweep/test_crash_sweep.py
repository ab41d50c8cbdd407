"""`crash_sweep`: what it tries, what it finds, and how it says so."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from holdfast import App, Call, current
from holdfast.errors import InvalidInput
from holdfast.testing import Fake, SweepFailed, crash_sweep
from tests.support.flows import flow
from tests.unit.testing.sweep import stories as s

pytestmark = pytest.mark.slow

sweep = partial(crash_sweep, processes=0)
"""A sweep that replays in no other process: three fresh interpreters cost more than all the rest of a sweep."""


def test_a_step_that_is_not_safe_to_repeat_is_named() -> None:
    """Contract: the report names the step, what it did twice, the journal up to the crash, and a line to repeat it."""
    report = sweep(s.careless(5), fakes=[Fake(s.bank, s.Bank())])
    with pytest.raises(SweepFailed) as caught:
        report.assert_ok()
    text = str(caught.value)
    assert report.unsafe_steps == ["charge"]
    assert "step charge is not safe to repeat" in text
    assert "'payments': [5, 5]" in text
    assert "'payments': [5]" in text
    assert 'again: crash_sweep(careless(…), only="after charge")' in text
    assert 'step           charge               {"cents":5}' in text
    assert isinstance(caught.value, AssertionError)


@pytest.mark.parametrize("call", [s.immediate(5), s.refusing(5)], ids=["completes", "fails"])
def test_a_workflow_that_ends_in_its_first_turn_is_no_alarm(call: Call[int]) -> None:
    """Promise: a run that has ended cannot be cancelled any more, so no cancel is tried after its last row."""
    report = sweep(call)
    report.assert_ok()
    assert report.points == ["after commit of row 2"]


def test_one_point_can_be_tried_alone() -> None:
    """Contract: `only` takes what the report prints."""
    report = sweep(s.careless(5), fakes=[Fake(s.bank, s.Bank())], only="after charge")
    assert report.points == ["after charge"]
    assert report.unsafe_steps == ["charge"]
    assert sweep(s.careless(5), fakes=[Fake(s.bank, s.Bank())], only="before charge").ok


def test_a_careful_workflow_survives_everything() -> None:
    """Contract: before and after each body, lease lost, two workers, before and after each commit, answers lost."""
    report = crash_sweep(s.careful(5), signals=[(s.approved, True)], fakes=[Fake(s.bank, s.Bank())])
    report.assert_ok()
    kinds = {point.rsplit(" row", 1)[0].rsplit(" charge", 1)[0] for point in report.points}
    assert kinds == {
        "before",
        "after",
        "lease lost in",
        "two workers in",
        "before commit of",
        "after commit of",
        "answer lost of",
        "cancel after",
    }


def test_pairs_of_crashes() -> None:
    """Contract: a second disturbance after the first one, all or so many."""
    fakes = [Fake(s.bank, s.Bank())]
    single = sweep(s.careful(5), signals=[(s.approved, True)], fakes=fakes)
    some = sweep(s.careful(5), signals=[(s.approved, True)], fakes=fakes, pairs=15)
    some.assert_ok()
    assert len(some.points) == len(single.points) + 15
    assert all(" + " in point for point in some.points[len(single.points) :])
    assert sweep(s.careless(5), fakes=fakes, pairs=True).unsafe_steps == ["charge"]


def test_a_step_declared_once_runs_once() -> None:
    """Contract: at-most-once steps are never repeated, and a workflow that is told so may end as it likes."""
    bank = s.Bank()
    sweep(s.cautious(5), fakes=[Fake(s.bank, bank)]).assert_ok()


def test_a_step_in_a_transaction_has_its_effect_once() -> None:
    """Contract: what the fake of a tx=True step keeps is there with the step's outcome, or not at all. An effect that
    is not safe to repeat is no mistake there, whatever is disturbed, and next to others of its kind."""
    ledger: list[int] = []

    def insert(cents: int) -> int:
        ledger.append(cents)
        return len(ledger)

    report = sweep(s.booked(3), fakes=[Fake(s.insert, insert)], pairs=40)
    report.assert_ok()
    assert "after insert" in report.points
    assert "two workers in insert" in report.points
    plain = sweep(s.booked_plainly(3), fakes=[Fake(s.insert_plainly, insert)])
    assert plain.unsafe_steps == ["insert_plainly"]


def test_a_failed_transaction_leaves_nothing() -> None:
    """Contract: an attempt that raises has written nothing, so the next one finds what the first one found."""
    ledger: list[int] = []

    def insert(cents: int) -> int:
        if ledger:
            raise InvalidInput("something was left behind")
        ledger.append(cents)
        if current().attempt == 1:
            raise ConnectionError("once")
        return len(ledger)

    crash_sweep(s.booked(1), fakes=[Fake(s.insert, insert)], processes=0).assert_ok()
    assert ledger == []


def test_a_transaction_needs_a_fake() -> None:
    """Contract: a sweep has no database and says so, with what to do."""
    report = sweep(s.booked(1))
    assert "step insert is declared with tx=True, and a sweep has no database" in str(report)
    assert "fakes=[Fake(insert, …)]" in str(report)


def test_compensation_survives_crashes() -> None:
    """Contract: what is undone is undone in the end, wherever the crash was."""
    sweep(s.undoing(5), fakes=[Fake(s.bank, s.Bank())]).assert_ok()


def test_steps_that_run_together() -> None:
    """Contract: their outcomes may come in any order."""
    report = sweep(s.together(3), fakes=[Fake(s.bank, s.Bank())])
    report.assert_ok()
    assert "late charge_by_key" in report.points


def test_children_are_swept_too() -> None:
    """Contract: points lie in every run of the tree."""
    report = sweep(s.parent(5), signals=["1h"], fakes=[Fake(s.bank, s.Bank())])
    report.assert_ok()
    assert any(point.startswith("after charge_by_key of sweep") for point in report.points)


def test_machines() -> None:
    """Contract: the style makes no difference."""
    report = sweep(s.parcel(s.Begin(5)), fakes=[Fake(s.bank, s.Bank())])
    report.assert_ok()
    assert any(point.startswith("after ") and "row" not in point for point in report.points)


def test_flows_from_an_app() -> None:
    """Contract: nor for a flow; what it calls by name is its app's, its sub-flow and that one's components too."""
    below = flow("below", {"paid": {"call": "charge", "with": {"cents": 5}}}, "${steps.paid}")
    above = flow(
        "above", {"sent": {"call": "below", "with": {}}, "nap": {"sleep": "1h", "always": True}}, "${steps.sent}"
    )
    fakes = [Fake(s.bank, s.Bank())]
    report = sweep(above(None), app=App(workflows=[above, below, s]), fakes=fakes)
    assert report.unsafe_steps == ["charge"]
    assert "after paid of sweep/sent" in report.points
    assert not report.skipped


def test_what_is_too_large_for_the_journal() -> None:
    """Contract: blobs that the journal names are known to the other processes too."""
    report = crash_sweep(s.weighs("x" * 200_000), processes=1)
    report.assert_ok()
    assert not report.skipped


def test_sync_workflows() -> None:
    crash_sweep(s.report.call(3)).assert_ok()


async def test_in_an_async_test() -> None:
    """Contract: it works under a running event loop."""
    crash_sweep(s.report.call(1)).assert_ok()


def test_what_is_ignored_is_not_compared() -> None:
    assert sweep(s.counted()).unsafe_steps == ["count_attempts"]
    sweep(s.counted(), ignore=[s.attempts]).assert_ok()
    assert s.attempts == []


def test_fakes_tell_of_the_undisturbed_run() -> None:
    """Contract: after a sweep a fake holds the calls of one run."""
    pay = Fake(s.charge, lambda cents: "paid")
    sweep(s.careless(5), fakes=[pay]).assert_ok()
    assert pay.calls == [{"cents": 5}]


def test_a_run_that_does_not_end_is_refused() -> None:
    """Contract: the error says what the run waits for and what to give."""
    with pytest.raises(InvalidInput, match=r"waiting for signal approved.*signals="):
        sweep(s.careful(5), fakes=[Fake(s.bank, s.Bank())], within="1h")


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(InvalidInput, match="takes a call such as"):
        crash_sweep(s.careful)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="is not a point of a sweep"):
        crash_sweep(s.careless(5), only="whenever")
    with pytest.raises(InvalidInput, match="pairs=-1"):
        crash_sweep(s.careless(5), pairs=-1)


def test_twenty_steps(record_property: Callable[[str, object], None]) -> None:
    """Contract: every point of a workflow of twenty steps is tried in seconds."""
    report = crash_sweep(s.many(20), fakes=[Fake(s.bank, s.Bank())], processes=1)
    report.assert_ok()
    record_property("figure", f"crash_sweep: {len(report.points)} points of a workflow of 20 steps")
    assert len(report.points) > 140
