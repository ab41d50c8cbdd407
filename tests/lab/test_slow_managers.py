"""A lease manager that is far away costs its distance, and nothing else: seen on virtual time, where it is exact."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from random import Random

import pytest

from holdfast.ports.grants import Acquiring, OwnedBy
from holdfast.ports.leases import ClaimRequest, Claims
from holdfast.worker.granted_claims import Granted
from tests.lab.sim import healthy
from tests.lab.sim.grants import LyingGrants
from tests.lab.sim.healthy import HealthyWorld
from tests.support.examples import count

RUNS = 60
DISTANCES = (0.01, 0.1, 0.3)
"""Seconds to the lease manager."""


def p90(waits: list[float]) -> float:
    """The time that nine of ten wait at most."""
    return waits[int(len(waits) * 0.9)]


def measured(seed: int, distance: float | None, workers: int, gap: float) -> list[float]:
    """Seconds from start to body of each run, of a fleet in which nothing else was wrong."""
    world = HealthyWorld(seed, healthy.fleet(RUNS, distance, workers=workers, gap=gap))
    assert world.problems() == [], f"seed {seed}"
    waits = world.waits()
    assert len(waits) == RUNS
    return waits


@pytest.mark.examples
@pytest.mark.parametrize(("workers", "gap"), [(2, 0.05), (5, 0.05), (2, 0.0)], ids=["two", "five", "all at once"])
def test_a_slow_manager_costs_its_distance(workers: int, gap: float) -> None:
    """Promise: nine of ten bodies begin within four times the distance beyond the store's own time, no run becomes a
    stray and no body runs twice, while nothing is killed."""
    for seed in range(count(4, few=1)):
        near = measured(seed, None, workers, gap)
        for distance in DISTANCES:
            far = measured(seed, distance, workers, gap)
            assert p90(far) <= p90(near) + 4 * distance, f"seed {seed}: {p90(near):.4f} s, then {p90(far):.4f} s"


def test_what_the_store_forgets_the_manager_knows() -> None:
    """Promise: the store takes live workers for dead and frees their runs; each asks the manager and writes itself
    back, and no body runs twice."""
    written_back = 0
    for seed in range(4):
        world = HealthyWorld(seed, healthy.fleet(RUNS, 0.01), forgets=True)
        assert world.problems() == [], f"seed {seed}"
        written_back += world.met["owner written back"]
    assert written_back > 0


@pytest.mark.examples
@pytest.mark.parametrize("first", range(0, 80, 20))
def test_healthy_fleets(first: int, rng: Random) -> None:
    """Promise: whatever the runs do, wherever the manager is, and though answers of it get lost, a fleet of which
    nobody is killed begins no body twice, has no stray, and begins what is started in time. (The lab beside the suite
    tries fifty new ones.)"""
    for seed in rng.sample(range(first, first + 20), count(20, few=2)):
        problems = healthy.drawn(seed).problems()
        assert not problems, f"seed {seed}: {problems[0]}"


@pytest.mark.parametrize(("seed", "why"), [(700000002900, "its queue has one place"), (700000004900, "a pause")])
def test_a_run_that_has_to_wait_is_no_slow_start(seed: int, why: str) -> None:
    """Promise: a run that waits for a place of its queue, or is paused before its first step, raises no alarm."""
    world = healthy.drawn(seed)
    assert not world.problems(), why
    run = next(run for run in world.scenario.runs if run.id == "run-1")
    assert world.scenario.at_once == 1 or run.pauses_at > 0
    bound = 4 * world.scenario.distance + healthy.OF_THE_STORE
    assert world.first_bodies[run.id] - run.starts_at > bound


# -- it would notice ---------------------------------------------------------------------------------------------------


def test_a_loser_that_writes_the_owner_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: what once stalled healthy fleets is a problem here: a worker that is refused writes the owner's row."""
    honest = Granted._claim_granted
    worlds: list[HealthyWorld] = []

    async def meddling(self: Granted, request: ClaimRequest, answers: Mapping[str, Acquiring], found: Claims) -> Claims:
        store = self._worker.store
        for run, answer in answers.items():
            owners = [process.worker for process in worlds[0].processes.values() if process.id == answer.worker]
            known = await store.get(run)
            if isinstance(answer, OwnedBy) and known is not None:
                await store.reinstate(run, instance=owners[0].options.instance, epoch=known.epoch)
        return await honest(self, request, answers, found)

    monkeypatch.setattr(Granted, "_claim_granted", meddling)
    worlds.append(HealthyWorld(1, healthy.fleet(RUNS, 0.1)))
    assert worlds[0].problems()


def test_an_owner_that_does_not_ask_the_manager_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: a session that is dropped because the store forgot its worker runs its body twice, and that is seen."""

    async def none(self: Granted, lost: Mapping[str, int]) -> Sequence[str]:
        return ()

    monkeypatch.setattr(Granted, "keep", none)
    world = HealthyWorld(1, healthy.fleet(RUNS, 0.01), forgets=True)
    assert any("began again" in problem for problem in world.problems())


def test_a_pass_that_asks_run_by_run_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: a round trip for each run is too long."""

    async def one_by_one(
        self: LyingGrants, runs: Sequence[str], worker: str, ttl: timedelta
    ) -> Mapping[str, Acquiring]:
        return {run: (await batch(self, [run], worker, ttl))[run] for run in runs}

    batch = LyingGrants.acquire_many
    monkeypatch.setattr(LyingGrants, "acquire_many", one_by_one)
    problems = HealthyWorld(1, healthy.fleet(RUNS, 0.1, gap=0.0)).problems()
    assert any("from a start to its body" in problem for problem in problems)
