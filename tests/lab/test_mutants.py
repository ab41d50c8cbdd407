"""The patches that break the sources on purpose: they fit. The lab tries them."""

from __future__ import annotations

import pytest

from tests.lab import mutating
from tests.lab.levels import Effort
from tests.lab.mutating import LEVELS, WITHOUT_SUBJECT, Fate, Mutant, applies, level_of, mutants, tried
from tests.lab.page import page_of

LISTED = 27


def test_every_patch_of_the_list_is_there() -> None:
    """Contract: 27 ways to break Holdfast; those whose subject does not exist yet are listed with the reason."""
    numbers = {int(mutant.name[:2]) for mutant in mutants()} | {int(number) for number in WITHOUT_SUBJECT}
    assert set(range(1, LISTED + 1)) <= numbers


@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.name)
def test_every_patch_fits(mutant: Mutant) -> None:
    """Contract: the sources have not moved away from under it."""
    assert not applies(mutant)


def test_the_list_says_by_which_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: a campaign that is given time, however little, tries every patch; the page names each with the level
    and the test that noticed it, and those without a subject with the reason."""
    monkeypatch.setattr(mutating, "try_on", lambda mutant: Fate(mutant, True, mutant.tests[0], 0.0))
    report = tried(Effort(seconds=0, say=lambda text: None))
    assert [row["mutant"] for row in report.listed] == sorted(
        [*WITHOUT_SUBJECT, *(mutant.name[:2] for mutant in mutants())]
    )
    level = {"title": "mutants", "figures": {}, "sometimes": {}, "problems": [], "listed": report.listed}
    page = page_of({"command": "python3 dev.py lab", "levels": {"mutants": level}})
    for mutant in mutants():
        assert f"| {mutant.name[:2]} | {mutant.what} | {level_of(mutant.tests[0])} | {mutant.tests[0]} |" in page
    assert "no subject" in page


def test_a_patch_that_was_not_tried_is_listed_as_such() -> None:
    """Promise: five are five, not all."""
    one, *others = mutants()
    rows = {row["mutant"]: row["noticed by"] for row in mutating.listing([Fate(one, True, one.tests[0], 0.0)])}
    assert rows[one.name[:2]] == level_of(one.tests[0])
    assert {rows[other.name[:2]] for other in others} == {"not tried in this campaign"}
    assert mutating.listing([Fate(one, False, "", 0.0)])[0]["noticed by"] == "LIVES"


@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.name)
def test_every_patch_names_tests_of_a_level(mutant: Mutant) -> None:
    """Contract: tests that are there, each of a known level."""
    for test in mutant.tests:
        assert level_of(test) in LEVELS.values()
        assert (mutating.ROOT / test.partition("::")[0]).exists()
