"""The patches that break the sources on purpose: they fit. The lab tries some of them at every change."""

from __future__ import annotations

import pytest

from tests.lab.mutating import WITHOUT_SUBJECT, Mutant, applies, mutants

LISTED = 27


def test_every_patch_of_the_list_is_there() -> None:
    """Contract: 27 ways to break Holdfast; those whose subject does not exist yet are listed with the reason."""
    numbers = {int(mutant.name[:2]) for mutant in mutants()} | {int(number) for number in WITHOUT_SUBJECT}
    assert set(range(1, LISTED + 1)) <= numbers


@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.name)
def test_every_patch_fits(mutant: Mutant) -> None:
    """Contract: the sources have not moved away from under it."""
    assert not applies(mutant)
