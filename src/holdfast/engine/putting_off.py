"""How long a run waits that was claimed and could not be taken on. Pure."""

from __future__ import annotations

from datetime import timedelta

FIRST, LONGEST = timedelta(seconds=5), timedelta(minutes=5)
REMEMBERED = 10_000
"""Runs whose number of tries is kept."""


class PutOffs:
    """Five seconds at first, twice as long each time in a row, five minutes at most: as the store puts off what no
    worker can run. Counted here, since a claim takes the store's count back; who counts anew only tries more often."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}

    def next(self, run: str) -> timedelta:
        """Once more."""
        times = self._times.pop(run, 0)
        self._times[run] = times + 1
        if len(self._times) > REMEMBERED:
            del self._times[next(iter(self._times))]
        return min(FIRST * (1 << min(times, 10)), LONGEST)

    def forget(self, run: str) -> None:
        """It was taken on."""
        self._times.pop(run, None)
