"""Virtual time moves by hand only."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.errors import InvalidInput

START = datetime(2026, 1, 1, tzinfo=UTC)


def test_time_stands_still() -> None:
    """Contract: without advance() both clocks say the same forever."""
    clock = VirtualClock(START)
    assert (clock.now(), clock.boot()) == (START, ("boot-1", 0.0))
    assert (clock.now(), clock.boot()) == (START, ("boot-1", 0.0))


@pytest.mark.parametrize("step", [timedelta(seconds=90), 90, 90.0])
def test_both_clocks_advance(step: timedelta | float) -> None:
    """Contract: by a timedelta, or a number of seconds."""
    clock = VirtualClock(START)
    clock.advance(step)
    assert (clock.now(), clock.boot()) == (START + timedelta(seconds=90), ("boot-1", 90.0))


def test_small_steps_add_up_exactly() -> None:
    """Contract: no drift between the clocks, however many steps there are."""
    clock = VirtualClock(START)
    for _ in range(1000):
        clock.advance(0.1)
    assert (clock.now(), clock.boot()[1]) == (START + timedelta(seconds=100), 100.0)


def test_time_does_not_pass_backwards() -> None:
    """Contract: a negative step is refused, with what to use instead."""
    with pytest.raises(InvalidInput, match=r"set\(\)"):
        VirtualClock(START).advance(-1)


def test_the_wall_clock_can_be_set_alone() -> None:
    """Contract: set() moves wall time either way; no time passes."""
    clock = VirtualClock(START)
    clock.advance(5)
    clock.set(START - timedelta(days=1))
    assert (clock.now(), clock.boot()) == (START - timedelta(days=1), ("boot-1", 5.0))


def test_a_reboot_counts_anew() -> None:
    """Contract: another boot id each time, from zero seconds; wall time stays."""
    clock = VirtualClock(START)
    clock.advance(5)
    clock.reboot()
    assert (clock.now(), clock.boot()) == (START + timedelta(seconds=5), ("boot-2", 0.0))


def test_instants_are_aware_and_in_utc() -> None:
    """Contract: other zones are converted, naive values refused."""
    clock = VirtualClock(START.astimezone(timezone(timedelta(hours=5))))
    assert clock.now() == START
    assert clock.now().tzinfo is UTC
    with pytest.raises(InvalidInput, match="naive"):
        clock.set(datetime(2026, 1, 1))  # noqa: DTZ001 the point of the test
