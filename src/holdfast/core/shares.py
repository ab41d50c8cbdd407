"""Fair order among shares: however many runs of one share wait, another share's run does not wait for them. Pure.

A share is what runs compete as: by default their workflow. Each claimer counts in turns what it claimed: the share with
the fewest comes first, and a share that was absent returns level with the others. So only the lead of each share has to
be remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

Share: TypeAlias = str


def share_of(workflow: str) -> Share:
    """What the runs of a workflow compete as."""
    return workflow


def queue_share(queue: str) -> Share:
    """The name under which the runs at a queue's gate compete with all others. No workflow can have it."""
    return f"\x01{queue}"


def fair_order(
    candidates: Iterable[T],
    *,
    share: Callable[[T], Share],
    place: Callable[[T], Any],
    ahead: Mapping[Share, int],
    lines: Mapping[Share, Iterable[T]] | None = None,
) -> list[T]:
    """The order of a claim: by turns of the shares; within a turn and a share, by `place`. `lines`: further shares,
    each with its own order (`core.gate`)."""
    turns: dict[Share, int] = {}
    keyed: list[tuple[int, Any, T]] = []
    for candidate in sorted(candidates, key=place):
        its = share(candidate)
        turn = turns.get(its, ahead.get(its, 0))
        turns[its] = turn + 1
        keyed.append((turn, place(candidate), candidate))
    for its, runs in (lines or {}).items():
        keyed += ((turn, place(run), run) for turn, run in enumerate(runs, ahead.get(its, 0)))
    keyed.sort(key=lambda each: each[:2])
    return [candidate for _, _, candidate in keyed]


class Shares:
    """What one claimer took: its current turn and, for each share that is ahead, the turn it may take next."""

    def __init__(self) -> None:
        self._turn = 0
        self._next: dict[Share, int] = {}

    @property
    def ahead(self) -> Mapping[Share, int]:
        """By how many turns shares are ahead. Shares that are not ahead are left out."""
        return {share: turn - self._turn for share, turn in self._next.items()}

    def took(self, shares: Iterable[Share]) -> None:
        """Records that runs of these shares were claimed, in this order."""
        turn = self._turn
        for share in shares:
            turn = max(self._turn, self._next.get(share, 0))
            self._next[share] = turn + 1
        self._turn = max(self._turn, turn)
        self._next = {share: turn for share, turn in self._next.items() if turn > self._turn}


class Claimers(dict[str, Shares]):
    """The shares of each instance that claims from here."""

    def __missing__(self, instance: str) -> Shares:
        shares = self[instance] = Shares()
        return shares

    def count(self, instance: str, workflow: str) -> None:
        """Counts a run that began other than by a claim, if the instance claims."""
        if instance in self:
            self[instance].took([share_of(workflow)])
