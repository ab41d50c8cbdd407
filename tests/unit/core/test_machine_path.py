"""The path of a machine's run, read from its journal alone."""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast.core import events as e
from holdfast.core.failure import Failure
from holdfast.core.machine_path import machine_path
from holdfast.core.turn import Turn


def turns(*rows: tuple[e.AnyEvent, ...]) -> list[Turn]:
    """A journal of these rows."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return [Turn("run", number, 1, at, events, bytes([number]) * 8) for number, events in enumerate(rows, 1)]


START = (e.Started(workflow="parcel", style="machine"),)


def test_visits_are_read_from_steps_sleeps_and_scripts() -> None:
    """Promise: a loop is two visits; cursors, items and the steps of a script are none."""
    path = machine_path(
        "run",
        turns(
            START,
            (e.Claimed(worker="w"), e.StepScheduled(key="Reserve", undo=True)),
            (e.StepCompleted(key="Reserve"), e.StepScheduled(key="Packing")),
            (e.StepCompleted(key="Packing"), e.StepScheduled(key="Packing.1", step="Packing")),
            (e.StepCompleted(key="Packing.1"), e.Entered(key="Talking", state="Talking"), e.StepScheduled(key="book")),
            (
                e.StepCompleted(key="book"),
                e.Entered(key="Reserve:1", state="Reserve"),
                e.StepScheduled(key="Reserve:1", step="Reserve", undo=True),
            ),
            (e.StepCompleted(key="Reserve:1"), e.StepScheduled(key="Shipping")),
        ),
    )
    assert path is not None
    assert [visit.state for visit in path.visits] == ["Reserve", "Packing", "Talking", "Reserve", "Shipping"]
    assert [visit.key for visit in path.visits][3] == "Reserve:1"
    assert path.state == "Shipping"
    assert path.undoable == ["Reserve:1", "Reserve"]
    assert not path.is_over


def test_after_a_failure_it_says_what_was_not_undone_and_what_may_have_acted() -> None:
    """Promise: both are read from the journal's end."""
    failure = Failure("ValueError", "no")
    path = machine_path(
        "run",
        turns(
            START,
            (e.Claimed(worker="w"), e.StepScheduled(key="Reserve", undo=True)),
            (e.StepCompleted(key="Reserve"), e.StepScheduled(key="Pay", undo=True)),
            (
                e.StepFailed(key="Pay", failure=failure),
                e.StepScheduled(key="undo Reserve", undoes="Reserve"),
            ),
            (e.StepFailed(key="undo Reserve", failure=failure), e.Failed(failure=failure, undone=("Reserve",))),
        ),
    )
    assert path is not None
    assert path.is_over
    assert path.undoable == ["Reserve"]
    assert path.suspects == ["Pay"]
    assert [visit.state for visit in path.visits] == ["Reserve", "Pay"]


def test_a_run_of_another_kind_has_no_path() -> None:
    """Promise: scripts are told by their timeline."""
    assert machine_path("run", turns((e.Started(workflow="hello"),))) is None
