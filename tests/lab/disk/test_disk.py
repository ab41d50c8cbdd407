"""Disks that fail and disks that lose their power, under a real SQLite store."""

from __future__ import annotations

from random import Random
from typing import Any, Literal

import apsw
import pytest

from tests.lab.disk.campaign import CODES, Fault, cut, failing

POINTS = 75
CUTS = 60


def chosen(rng: Random, count: int) -> list[Fault]:
    verbs = ["write"] * 4 + ["sync"] * 4 + ["truncate", "read"]
    return [
        Fault(rng.choice(verbs), rng.randint(1, 60), rng.choice(CODES), stays=rng.random() < 0.3) for _ in range(count)
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # apsw reports what a VFS method raised
@pytest.mark.parametrize("share", range(4))
def test_what_was_acknowledged_survives_a_failing_disk(share: int, rng: Random, record_property: Any) -> None:
    """Promise (S1, S2, S5, S6): whichever call fails, once or for good, the file stays sound and nothing is lost."""
    met = refused = 0
    for fault in chosen(rng, POINTS):
        seed = rng.randrange(2**32)
        outcome = failing(fault, seed)
        assert not outcome.problem, f"failing({fault}, seed {seed}): {outcome.problem}"
        met += outcome.is_met
        refused += outcome.refused
    record_property("figure", f"disk faults, share {share}: {met} of {POINTS} met, {refused} calls refused")
    assert met > POINTS / 3
    assert refused


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["all lost", "some torn"])
def test_what_was_acknowledged_survives_a_power_cut(
    mode: Literal["all lost", "some torn"], rng: Random, record_property: Any
) -> None:
    """Promise (S2): without the writes that were never synced, or with some of them, torn, all that was acknowledged is
    there."""
    seed = rng.randrange(2**32)
    _, calls = cut(seed, frozenset(), mode)
    outcomes, _ = cut(seed, frozenset(rng.sample(range(1, calls + 1), min(CUTS, calls))), mode)
    problems = [outcome.problem for outcome in outcomes if outcome.problem]
    record_property("figure", f"power cuts ({mode}): {len(outcomes)} of {calls} moments, {len(problems)} with losses")
    assert not problems, f"seed {seed}: {problems}"
    assert len(outcomes) > CUTS / 2


def test_the_oracle_sees_what_is_lost() -> None:
    """The disk that loses unsynced writes does lose them: a store that does not sync is caught."""
    _, calls = cut(1, frozenset(), "all lost", durability="off")
    outcomes, _ = cut(1, frozenset(range(1, calls + 1, 3)), "all lost", durability="off")
    assert any("lost row" in outcome.problem for outcome in outcomes)
    assert apsw.vfs_names()[0] != "power"
