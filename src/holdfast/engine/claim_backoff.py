"""How often in a row a run was claimed here and could not be taken on. Pure."""

from __future__ import annotations

from datetime import timedelta

from holdfast.core.backoff import put_off

REMEMBERED = 10_000
"""Runs whose number of tries is kept."""


class PutOffs:
    """Counted here, since a claim takes the store's count back; who counts anew only tries more often."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}

    def next(self, run: str) -> timedelta:
        """Once more."""
        times = self._times.pop(run, 0)
        self._times[run] = times + 1
        if len(self._times) > REMEMBERED:
            del self._times[next(iter(self._times))]
        return put_off(times)

    def forget(self, run: str) -> None:
        """It was taken on."""
        self._times.pop(run, None)
