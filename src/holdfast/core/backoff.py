"""How long a run is delayed if no worker has its definition or something else that it needs."""

from __future__ import annotations

from datetime import timedelta

FIRST, LONGEST = timedelta(seconds=5), timedelta(minutes=5)


def put_off(times: int) -> timedelta:
    """The delay: five seconds at first, doubled each time in a row, at most five minutes. (PostgreSQL's `claim` has the
    same rule.) `times`: how often it was put off before."""
    return min(FIRST * (1 << min(times, 10)), LONGEST)
