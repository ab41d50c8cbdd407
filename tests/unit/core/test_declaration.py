"""Which definition of a schedule counts while workers of two deploys live side by side."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from holdfast.core.declaration import REMEMBERED, declared, is_declared, made_by_hand, settled
from holdfast.core.schedule import Definition, ScheduleState, Work, next_look
from holdfast.core.timetable import make_timetable

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def version(number: int, every: str = "1h") -> Definition:
    """A definition that differs from others by the version of its workflow."""
    return Definition(timetable=make_timetable(every=every), work=Work(workflow="order", version=str(number)))


def says(
    state: ScheduleState | None, number: int, instance: str, live: str = "", *, now: datetime = NOW, every: str = "1h"
) -> ScheduleState:
    """A worker declares a version while those instances live."""
    return declared(state, version(number, every), instance=instance, by=instance, live=set(live.split()), now=now)


def counts(state: ScheduleState) -> str:
    return state.definition.work.version


def test_the_first_worker_of_a_new_deploy_takes_over() -> None:
    """Promise: of the definitions of live workers, the one that was first seen last counts."""
    state = says(None, 1, "a")
    assert counts(state) == "1"
    assert counts(says(state, 2, "b", "a b")) == "2"


def test_an_old_worker_that_restarts_changes_nothing() -> None:
    """Promise: no flapping, however often and in whatever order workers of both deploys start."""
    state = says(says(None, 1, "a"), 2, "b", "a b")
    for number in range(10):
        state = says(state, 1, f"a{number}", f"a{number} b")
        assert counts(state) == "2"


def test_a_rollback_counts_when_the_last_new_worker_has_gone() -> None:
    """Promise: the old definition counts again, with or without another declaration; until then somebody looks."""
    both = says(says(None, 1, "a"), 2, "b", "a b")
    look = next_look("s", both, NOW)
    assert look is not None
    assert look <= NOW + timedelta(minutes=1)
    assert counts(settled(both, {"a"}, NOW)) == "1"
    assert counts(says(both, 1, "c", "a c")) == "1"


def test_without_a_live_worker_the_last_definition_stays() -> None:
    """Promise: it still counts, and it is known that nobody declares it."""
    state = settled(says(says(None, 1, "a"), 2, "b", "a b"), set(), NOW)
    assert counts(state) == "2"
    assert not is_declared(state, {"z"})
    assert is_declared(says(state, 2, "c", "c"), {"c"})


def test_a_definition_that_was_seen_before_is_remembered_as_old() -> None:
    """Promise: also when none of its workers lived for a while: a straggler does not undo a deploy."""
    state = settled(says(says(None, 1, "a"), 2, "b", "b"), {"b"}, NOW)
    assert counts(says(state, 1, "a2", "a2 b")) == "2"


def test_what_is_remembered_is_bounded() -> None:
    """Promise: a schedule does not grow with every deploy."""
    state = says(None, 0, "i0")
    for number in range(1, 100):
        state = says(state, number, f"i{number}", f"i{number}")
    assert len(state.declared) <= REMEMBERED
    assert counts(state) == "99"
    assert sum(one.definition is not None for one in state.declared) == 1


def test_a_schedule_made_by_hand_counts_until_a_newer_one_is_declared() -> None:
    """Promise: workers that restart do not undo it; a new deploy does, and when its workers go, it stays undone."""
    state = made_by_hand(says(None, 1, "a"), version(5), by="ann", now=NOW)
    assert counts(state) == "5"
    assert is_declared(state, set())
    state = says(state, 1, "b", "a b")
    assert counts(state) == "5"
    state = says(state, 6, "c", "a b c")
    assert counts(state) == "6"
    assert counts(settled(state, {"c"}, NOW)) == "6"


def test_a_new_timetable_begins_now() -> None:
    """Promise: slots that a different timetable had in the past are not made up for; with the same timetable they
    are."""
    later = NOW + timedelta(hours=5)
    state = says(None, 1, "a")
    assert says(state, 2, "b", "b", now=later).cursor == NOW
    assert says(state, 2, "b", "b", now=later, every="2h").cursor == later
