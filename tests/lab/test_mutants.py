"""The patches that break the sources on purpose: they fit, and some of them are tried at every change."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from tests.lab.mutating import ROOT, WITHOUT_SUBJECT, Mutant, applies, mutants, try_on

LISTED = 27
TRIED = 5


def rotated() -> list[Mutant]:
    """Five of them, others at every commit."""
    answer = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    every = mutants()
    first = int(answer.stdout.strip()[:8] or "0", 16) % len(every)
    return [*every[first:], *every[:first]][:TRIED]


def test_every_patch_of_the_list_is_there() -> None:
    """Contract: 27 ways to break Holdfast; those whose subject does not exist yet are listed with the reason."""
    numbers = {int(mutant.name[:2]) for mutant in mutants()} | {int(number) for number in WITHOUT_SUBJECT}
    assert set(range(1, LISTED + 1)) <= numbers


@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.name)
def test_every_patch_fits(mutant: Mutant) -> None:
    """Contract: the sources have not moved away from under it."""
    assert not applies(mutant)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("place", range(TRIED))
def test_some_mutants_are_killed(place: int, record_property: Any) -> None:
    """Promise: what it breaks, the tests it names notice."""
    fate = try_on(rotated()[place])
    record_property("figure", f"mutant {fate.mutant.name} killed in {fate.seconds:.0f} s by {fate.by}")
    assert fate.is_killed, f"{fate.mutant.name} ({fate.mutant.what}) lives: {fate.by}"
