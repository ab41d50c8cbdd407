"""Who killed which worker, known from the bodies that did it, and apart from what the store counts.

L5: a run that kills its workers does so at most `MOST` times without progress, then it is quarantined; and no other is
because of it. What may happen to an innocent run is to lose its worker by chance, twice; or to be on trial while two
other runs, new to the store, kill beside it, twice each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from holdfast.core.suspicion import ALONE, SOLO

Killer: TypeAlias = tuple[str, int]
"""A run, and how often it had made progress: from then on nobody knows it again."""

FRESH = 2
"""So often a run kills before it is a suspect: under the claim that brought progress, and once more."""

MOST = FRESH + SOLO


class Blame:
    """The deaths of one world."""

    def __init__(self) -> None:
        self._lives: Counter[str] = Counter()
        self._kills: Counter[str] = Counter()
        self._beside: dict[str, set[Killer]] = {}
        self._explained: Counter[str] = Counter()
        """How many of a run's counted claims ended because another run killed the worker."""

    def killed(self, run: str, aboard: Mapping[str, int]) -> Iterator[str]:
        """A body of the run ended its worker, which held these, each with its claims without progress.

        A claim under which the run made progress counts nothing, so its end explains none of those that count."""
        for other, claims in aboard.items():
            if other != run:
                self._beside.setdefault(other, set()).add((run, self._lives[run]))
                self._explained[other] += claims > 0
        if run in aboard:
            self._kills[run] += 1
            if self._kills[run] > MOST:
                yield f"it has killed {self._kills[run]} workers without progress, and is tried once more"

    def cleared(self, run: str) -> None:
        """It made progress, or was given back."""
        self._lives[run] += 1
        self._kills.pop(run, None)
        self._beside.pop(run, None)
        self._explained.pop(run, None)

    def quarantined(self, run: str, claims: int, max_claims: int) -> Iterator[str]:
        """It is paused for the deaths of its workers; `claims` without progress were counted, this one included."""
        beside = self._beside.get(run, set())
        by_chance = claims - 1 - self._explained[run] - self._kills[run]
        is_innocent = not self._kills[run] and by_chance < ALONE and len(beside) < SOLO / FRESH
        if is_innocent and claims < max_claims:
            yield f"it is quarantined, and lost its workers {by_chance} times by chance, and to {sorted(beside)}"
