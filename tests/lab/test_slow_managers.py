"""A lease manager that is far away costs its distance, and nothing else: seen on virtual time, where it is exact."""

from __future__ import annotations

import pytest

from tests.lab.sim import healthy
from tests.lab.sim.healthy import HealthyWorld

RUNS = 60


def p90(waits: list[float]) -> float:
    """The time that nine of ten wait at most."""
    return waits[int(len(waits) * 0.9)]


def measured(seed: int, distance: float | None, workers: int) -> list[float]:
    """Seconds from start to body of each run, of a fleet in which nothing else was wrong."""
    world = HealthyWorld(seed, healthy.fleet(RUNS, distance, workers=workers))
    assert world.problems() == [], f"seed {seed}"
    waits = world.waits()
    assert len(waits) == RUNS
    return waits


@pytest.mark.parametrize("distance", [0.01, 0.1, 0.3])
@pytest.mark.parametrize("workers", [2, 5])
def test_a_slow_manager_costs_its_distance(distance: float, workers: int) -> None:
    """Promise: nine of ten bodies begin within four times the distance beyond the store's own time, no run becomes a
    stray and no body runs twice, while nothing is killed."""
    for seed in range(4):
        near, far = measured(seed, None, workers), measured(seed, distance, workers)
        assert p90(far) <= p90(near) + 4 * distance + 1e-6, f"seed {seed}: {p90(near):.4f} s, then {p90(far):.4f} s"


@pytest.mark.parametrize("first", range(0, 120, 30))
def test_healthy_fleets(first: int) -> None:
    """Promise: whatever the runs do, wherever the manager is, and though answers of it get lost, a fleet of which
    nobody is killed begins no body twice, has no stray, and begins what is started in time."""
    for seed in range(first, first + 30):
        problems = HealthyWorld(seed, healthy.draw(seed)).problems()
        assert not problems, f"seed {seed}: {problems[0]}"
