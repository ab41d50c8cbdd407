"""The simulation's own account of which run killed which worker."""

from __future__ import annotations

from tests.lab.sim.blame import MOST, Blame

MAX_CLAIMS = 20


def test_a_run_quarantined_only_for_the_kills_of_one_other_is_reported() -> None:
    """Promise: the one killer explains every counted claim of the innocent run, so nothing excuses the verdict."""
    blame = Blame()
    for claims in (1, 2, 3):
        assert list(blame.killed("poison", {"poison": claims, "innocent": claims})) == []
    (problem,) = blame.quarantined("innocent", 4, MAX_CLAIMS)
    assert "0 times by chance, and to [('poison', 0)]" in problem


def test_a_kill_under_a_claim_that_brought_progress_explains_no_counted_claim() -> None:
    """Promise: such a claim is not counted. Of the three claims that are, one ended by the killer and two by chance.
    Two deaths by chance may quarantine a run."""
    blame = Blame()
    for claims in (0, 1):
        assert list(blame.killed("poison", {"poison": claims, "innocent": claims})) == []
    assert list(blame.quarantined("innocent", 4, MAX_CLAIMS)) == []


def test_a_killer_that_is_never_quarantined_is_reported() -> None:
    """Promise: after its last allowed kill a run is tried no more; progress starts the count again."""
    blame = Blame()
    for claims in range(MOST):
        assert list(blame.killed("poison", {"poison": claims})) == []
    blame.cleared("poison")
    for claims in range(MOST):
        assert list(blame.killed("poison", {"poison": claims})) == []
    (problem,) = blame.killed("poison", {"poison": MOST})
    assert "tried once more" in problem
