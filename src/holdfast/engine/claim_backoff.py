"""How often in a row a run was claimed here and could not be opened. Pure."""

from __future__ import annotations

from datetime import timedelta

from holdfast.core.backoff import put_off

REMEMBERED = 10_000
"""Maximum number of runs that are counted."""


class PutOffs:
    """Counted here, since a claim resets the store's count. A worker that starts counting again only tries more
    often."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}

    def next(self, run: str) -> timedelta:
        """Counts another failed try, and returns how long to wait."""
        times = self._times.pop(run, 0)
        self._times[run] = times + 1
        if len(self._times) > REMEMBERED:
            del self._times[next(iter(self._times))]
        return put_off(times)

    def forget(self, run: str) -> None:
        """Forgets a run that was opened."""
        self._times.pop(run, None)
