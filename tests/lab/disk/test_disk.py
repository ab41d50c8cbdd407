"""Disks that fail and disks that lose their power, under a real SQLite store."""

from __future__ import annotations

from datetime import timedelta
from itertools import cycle
from random import Random
from typing import Any

import apsw
import msgspec
import pytest

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.memory.store import MemoryStore
from holdfast.core.schedule import Advance
from holdfast.schedules.book import state_of, write
from holdfast.testing.conformance.world import START, World
from tests.lab.disk import campaign
from tests.lab.disk.campaign import CUTS, MODES, TURNS, Mode, Outcome, chosen, cut, disk_faults, failing, seeds
from tests.lab.disk.trace import PULSE, Acknowledged, Trace
from tests.lab.levels import Effort
from tests.support.examples import count

SHARE = count(75, few=15)


@pytest.mark.slow
@pytest.mark.examples
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # apsw reports what a VFS method raised
@pytest.mark.parametrize("share", range(4))
def test_what_was_acknowledged_survives_a_failing_disk(share: int, rng: Random, record_property: Any) -> None:
    """Promise (S1, S2, S5, S6): whichever call fails, once or for good, the file stays sound and nothing is lost."""
    met = refused = 0
    for _ in range(SHARE):
        fault = chosen(rng)
        seed = rng.randrange(2**32)
        outcome = failing(fault, seed)
        assert not outcome.problem, f"failing({fault}, seed {seed}): {outcome.problem}"
        met += outcome.is_met
        refused += outcome.refused
    record_property("figure", f"disk faults, share {share}: {met} of {SHARE} met, {refused} calls refused")
    assert met > SHARE / 3
    assert refused


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_what_was_acknowledged_survives_a_power_cut(mode: Mode, rng: Random, record_property: Any) -> None:
    """Promise (S2): without the writes that were never synced, or with some of them, torn, all that was acknowledged is
    there."""
    seed = rng.randrange(2**32)
    _, calls = cut(seed, frozenset(), mode)
    outcomes, _ = cut(seed, frozenset(rng.sample(range(1, calls + 1), min(CUTS, calls))), mode)
    problems = [outcome.problem for outcome in outcomes if outcome.problem]
    record_property("figure", f"power cuts ({mode}): {len(outcomes)} of {calls} moments, {len(problems)} with losses")
    assert not problems, f"seed {seed}: {problems}"
    assert len(outcomes) > CUTS / 2


@pytest.mark.parametrize(
    ("effort", "wanted"),
    [
        (Effort(seeds=3, first=7), [7, 8, 9]),
        (Effort(seeds=2, seconds=10**9), [0, 1]),
        (Effort(), [0, 1, 2, 3, 4]),
        (Effort(seconds=0), []),
    ],
)
def test_a_level_tries_what_was_asked_for(effort: Effort, wanted: list[int]) -> None:
    """Contract: so many seeds, for so long; neither asked for, the usual number."""
    assert list(seeds(effort, 5)) == wanted


@pytest.mark.parametrize(
    ("effort", "is_met", "failed", "is_void"),
    [
        (Effort(), [True, False], 300, False),
        (Effort(seconds=0), [True, False], 300, False),
        (Effort(seeds=4), [True, False], 2, False),
        (Effort(), [True, False, False, False], 225, True),
    ],
)
def test_a_campaign_goes_on_until_enough_calls_failed(
    monkeypatch: pytest.MonkeyPatch, effort: Effort, is_met: list[bool], failed: int, is_void: bool
) -> None:
    """Promise: below 300 calls that really failed the level is void; a fault behind the end of its trace is none."""
    outcomes = (Outcome(each, 1, "") for each in cycle(is_met))
    monkeypatch.setattr(campaign, "failing", lambda fault, seed: next(outcomes))
    report = disk_faults(effort)
    assert report.figures["calls that failed"] == failed
    assert bool(report.problems) is is_void


async def test_the_oracle_sees_a_slot_without_its_run() -> None:
    """Promise: a schedule that was moved without the runs of its slots is caught, and so are runs without the move."""
    clock = VirtualClock(START)
    store = MemoryStore(clock)
    world, noted = World(store, clock), Acknowledged()
    await Trace(store, Random(3), noted).run(TURNS)
    assert await noted.missing(world) == []
    stored = await store.schedule(PULSE.name)
    assert stored is not None
    state = state_of(stored)
    for cursor, says in (
        (state.cursor + timedelta(seconds=1), "of a slot that was decided"),
        (START, "decision of the slot whose run is pulse@"),
    ):
        stored = await store.schedule(PULSE.name)
        assert stored is not None
        moved = msgspec.structs.replace(state, cursor=cursor)
        assert await write(store, PULSE.name, stored.revision, Advance(moved), START)
        assert [each for each in await noted.missing(world) if says in each]


def test_the_oracle_sees_what_is_lost() -> None:
    """The disk that loses unsynced writes does lose them: a store that does not sync is caught."""
    _, calls = cut(1, frozenset(), "all lost", durability="off")
    outcomes, _ = cut(1, frozenset(range(1, calls + 1, 3)), "all lost", durability="off")
    assert any("lost row" in outcome.problem for outcome in outcomes)
    assert apsw.vfs_names()[0] != "power"
