"""Fair order: shares take turns, whoever floods."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.shares import Claimers, Shares, fair_order
from tests.support.examples import MANY, examples

floods = st.dictionaries(st.sampled_from("abcde"), st.integers(1, 30), min_size=1)


def claimed(waiting: list[tuple[str, int]], shares: Shares, limit: int) -> list[str]:
    """Takes the first of those that wait."""
    order = fair_order(waiting, share=lambda x: x[0], place=lambda x: x[1], ahead=shares.ahead)[:limit]
    shares.took(share for share, _ in order)
    for each in order:
        waiting.remove(each)
    return [share for share, _ in order]


@examples(MANY)
@given(counts=floods, limits=st.lists(st.integers(1, 7), min_size=1, max_size=30), seed=st.randoms())
def test_shares_that_wait_get_the_same(counts: dict[str, int], limits: list[int], seed: object) -> None:
    """Promise (L6): while runs of two shares wait, neither is given two more than the other."""
    names = [name for name, count in counts.items() for _ in range(count)]
    getattr(seed, "shuffle")(names)  # noqa: B009 - hypothesis types it as object
    waiting = [(name, place) for place, name in enumerate(names)]
    shares, given_to = Shares(), dict.fromkeys(counts, 0)
    for limit in limits:
        for share in claimed(waiting, shares, limit):
            given_to[share] += 1
        still = {share for share, _ in waiting}
        behind = [given_to[share] for share in still]
        assert not behind or max(behind) - min(behind) <= 1


def test_a_new_share_comes_next() -> None:
    """Promise: after any number of runs of one share, one of another is first, or second after a tie."""
    waiting = [("flood", place) for place in range(1000)]
    shares = Shares()
    for _ in range(300):
        assert claimed(waiting, shares, 1) == ["flood"]
    waiting.append(("rare", 5000))
    assert claimed(waiting, shares, 1) == ["rare"]


def test_what_is_remembered_does_not_grow() -> None:
    """Promise: only shares that are ahead are remembered, however many there were."""
    shares = Shares()
    for number in range(10_000):
        shares.took([f"tenant-{number}", "steady"])
        assert len(shares.ahead) <= 2 + number % 2
    assert set(shares.ahead) <= {"steady", "tenant-9999"}


def test_only_claimers_are_counted() -> None:
    """Promise: an operator who takes runs under a name of their own leaves nothing behind."""
    claimers = Claimers()
    claimers.count("operator", "order")
    assert not claimers
    claimers["i1"].took([])
    claimers.count("i1", "order")
    assert claimers["i1"].ahead == {"order": 1}
