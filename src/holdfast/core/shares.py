"""Fair order among shares: however many runs of one share wait, another share's run does not wait for them. Pure.

A share is what runs compete as: by default their workflow. Each claimer counts what it took, in turns: the share it
took least from comes first, and a share that was away comes back level with the others, neither ahead nor behind. So
all that has to be remembered is how far each share is ahead.
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
    """What the runs that wait at the gate of a queue compete as with all others. No workflow has such a name."""
    return f"\x01{queue}"


def fair_order(
    candidates: Iterable[T],
    *,
    share: Callable[[T], Share],
    place: Callable[[T], Any],
    ahead: Mapping[Share, int],
    lines: Mapping[Share, Iterable[T]] | None = None,
) -> list[T]:
    """The order of a claim: by turns of the shares, within a turn and within a share by `place`. `lines`: further
    shares, each in an order of its own (`core.gate`)."""
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
    """What one claimer took: the turn it has come to, and of each share that is ahead the turn it may take next."""

    def __init__(self) -> None:
        self._turn = 0
        self._next: dict[Share, int] = {}

    @property
    def ahead(self) -> Mapping[Share, int]:
        """By how many turns shares are ahead. Those that are not are not named."""
        return {share: turn - self._turn for share, turn in self._next.items()}

    def took(self, shares: Iterable[Share]) -> None:
        """Runs of these were taken, in this order."""
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
        """A run began in another way than by a claim: it counts, if the instance is one that claims."""
        if instance in self:
            self[instance].took([share_of(workflow)])
